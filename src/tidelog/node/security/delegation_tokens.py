"""The mirror of the tree's delegation tokens on this broker. Nothing is read without delegation.token.secret.key.

What changed follows from the ids that were added or removed, and from the notifications.
"""

from collections.abc import Sequence

from tidelog.controller import tree
from tidelog.node.mirror import Mirror, Steps, Submit
from tidelog.ports import Node
from tidelog.security.delegation_tokens import TokenTable


class TokenMirror(Mirror[str]):
    watched = (tree.DELEGATION_TOKEN,)
    changes = (tree.DELEGATION_TOKEN_CHANGES,)
    lists = (tree.DELEGATION_TOKENS,)

    def __init__(self, submit: Submit, secret: str | None) -> None:
        super().__init__(submit)
        self.table = TokenTable(secret)
        self._known: set[str] = set()
        """The ids of the nodes that were read; the content of one may be malformed."""
        self._existing: set[str] = set()

    def __repr__(self) -> str:
        return f"<mirror of {self.table}, seen {self._seen}>"

    def _read(self) -> None:
        if self.table.is_enabled:
            super()._read()

    def _change_path(self, changes: str, number: int) -> str:  # noqa: ARG002 (there is only one)
        return tree.delegation_token_change_path(number)

    def _listed(self, lists: Sequence[Sequence[str]]) -> None:
        self._existing = set(lists[0])
        for token_id in self._known - self._existing:
            self._take(token_id, None)

    def _wanted(self, named: Sequence[tuple[str, bytes]] | None) -> Steps[Sequence[str]]:
        yield from ()
        if named is None:
            return sorted(self._existing)
        changed = {data.decode(errors="replace") for _, data in named}
        return sorted((changed & self._existing) | (self._existing - self._known))

    def _path(self, name: str) -> str:
        return tree.delegation_token_path(name)

    def _take(self, name: str, node: Node | None) -> None:
        if node is None:
            self._known.discard(name)
            self.table.remove(name)
            return
        self._known.add(name)
        token = tree.readable_token(name, node.data)
        if token is None:
            self.table.remove(name)
        else:
            self.table.put(token)
