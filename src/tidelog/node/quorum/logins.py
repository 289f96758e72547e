"""Who may log in by SCRAM to a node of a metadata quorum: users of the tree, or those it was formatted with."""

from collections.abc import Mapping

from tidelog.config.quotas import node_name
from tidelog.controller import tree
from tidelog.controller.config_values import read_values
from tidelog.node.quorum.local_tree import LocalTree
from tidelog.quorum.replica import Replica


class Logins:
    """`formatted` are the credentials by user that the folder was formatted with (`QuorumSetup.users`). Nobody logs in
    before `begin`."""

    def __init__(self, formatted: Mapping[str, Mapping[str, str]], local: LocalTree) -> None:
        self._formatted = formatted
        self._local = local
        self._replica: Replica | None = None
        self._loaded_at = 0

    def __repr__(self) -> str:
        return f"Logins({len(self._formatted)} formatted, loaded at {self._loaded_at})"

    def begin(self, replica: Replica) -> None:
        """The log was opened: the tree is loaded once it has what is known to be committed now."""
        self._replica, self._loaded_at = replica, replica.high_watermark

    @property
    def is_loaded(self) -> bool:
        """Until then the tree is that of the past, in which a user that was removed, or has another password, may log
        in."""
        return self._replica is not None and self._local.applied >= self._loaded_at

    def credentials(self, user: str, *, of_nodes: bool) -> Mapping[str, str]:
        """The user's credentials by mechanism; empty if it may not log in. `of_nodes`: nodes connect to this listener.
        There they log in as users of the folder as long as nothing of the cluster was committed as far as this node
        knows: without a login no node could fetch it, or be elected."""
        if self._replica is None or not self.is_loaded:
            return {}
        nodes = self._local.tree.nodes
        if tree.CLUSTER_ID not in nodes:
            may_use = of_nodes and not self._local.is_behind(self._replica)
            return self._formatted.get(user, {}) if may_use else {}
        path = f"{tree.USER_CONFIGS}/{node_name(user)}"
        return read_values(path, nodes[path].data) if path in nodes else {}
