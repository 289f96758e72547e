"""Whether brokers may work with each other in a cluster with an authorizer, before one of them starts.

Brokers serve each other's requests to principals that may do CLUSTER_ACTION on the cluster. Without such a principal
no partition would ever have a leader, and the reason would be a line in the log of another broker.
"""

from collections.abc import Sequence

from tidelog.config import listeners
from tidelog.config.broker import BrokerConfig
from tidelog.controller import acl_tree, tree
from tidelog.errors import InvalidOption
from tidelog.node.security.authorizer import may_be_broker
from tidelog.ports import Children, MetadataStore, Node, Read
from tidelog.security import sasl
from tidelog.security.acls import CLUSTER_NAME, WILDCARD, AclIndex, Binding, PatternType, ResourcePattern, ResourceType
from tidelog.shell.connections import tls
from tidelog.shell.log_dir_lock import CannotStart


def check(config: BrokerConfig, store: MetadataStore | None, own_token: str) -> None:
    """InvalidOption if the principal of this node could not be allowed what nodes request of each other. Without a
    store the metadata is in a quorum: no node has rules before its controllers serve each other."""
    index = AclIndex([] if store is None else _cluster_acls(store))
    opened = {each.listener for each in listeners.opened(config)}
    for name, protocol in listeners.among_nodes(config).items():
        principal = _own_principal(config, name, protocol, own_token)
        if principal is None:
            raise InvalidOption(
                "ssl.principal.mapping.rules: no rule matches the subject of this broker's own certificate"
            )
        # Whether a listener that others open takes certificates is not known here: they refuse, and log it.
        if name in opened and not may_be_broker(config, principal, index):
            raise InvalidOption(_refusal(config, name, principal, protocol, has_acls=store is not None))


def _refusal(config: BrokerConfig, name: str, principal: str, protocol: str, *, has_acls: bool) -> str:
    controllers = name in config.controller_listener_names
    who = "nodes connect to controllers" if controllers else "brokers connect to each other"
    option = "listener.security.protocol.map" if controllers else "security.inter.broker.protocol"
    others = " or give it CLUSTER_ACTION on the cluster with kafka-acls," if has_acls else ""
    return (
        f"super.users: {who} as {principal} ({protocol}), which may not do that; add it to super.users,{others} or "
        f"choose how they log in with {option}"
    )


def _own_principal(config: BrokerConfig, name: str, protocol: str, own_token: str) -> str | None:
    """This node as others know it that it reaches by the listener."""
    if protocol.startswith("SASL"):
        return f"User:{sasl.own_user(sasl.among_nodes(config)[name], own_token)}"
    return tls.own_principal(listeners.options_of(config, name)) if protocol == "SSL" else tls.ANONYMOUS


def _cluster_acls(store: MetadataStore) -> list[Binding]:
    """The rules that are about the cluster."""
    prefixes = store.apply([Children(acl_tree.type_path(PatternType.PREFIXED, ResourceType.CLUSTER))])
    patterns = [ResourcePattern(ResourceType.CLUSTER, name, PatternType.LITERAL) for name in (CLUSTER_NAME, WILDCARD)]
    if prefixes.outcome == "ok":
        patterns += acl_tree.patterns_at([(PatternType.PREFIXED, ResourceType.CLUSTER)], prefixes.values)
    found = store.apply([Read(acl_tree.pattern_path(pattern)) for pattern in patterns])
    if "unknown" in (prefixes.outcome, found.outcome):
        raise CannotStart("The metadata store does not answer.")
    return [binding for pattern, node in zip(patterns, found.values, strict=True) for binding in _rules(pattern, node)]


def _rules(pattern: ResourcePattern, node: Node | Sequence[str] | None) -> list[Binding]:
    try:
        acls = acl_tree.parse_acls(node.data) if isinstance(node, Node) else ()
    except tree.UNREADABLE:
        acls = acl_tree.DENY_ALL
    return [Binding(pattern, acl) for acl in acls]
