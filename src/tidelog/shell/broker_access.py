"""Whether brokers may work with each other in a cluster with an authorizer, before one of them starts.

Brokers serve each other's requests to principals that may do CLUSTER_ACTION on the cluster. Without such a principal
no partition would ever have a leader, and the reason would be a line in the log of another broker.
"""

from collections.abc import Sequence

from tidelog.config import listeners
from tidelog.config.broker import BrokerConfig
from tidelog.controller import acl_tree, tree
from tidelog.errors import InvalidOption
from tidelog.node.authorizer import may_be_broker
from tidelog.ports import Children, MetadataStore, Node, Read
from tidelog.security import sasl
from tidelog.security.acls import CLUSTER_NAME, WILDCARD, AclIndex, Binding, PatternType, ResourcePattern, ResourceType
from tidelog.shell.connections import tls
from tidelog.shell.log_dir_lock import CannotStart


def check(config: BrokerConfig, store: MetadataStore, own_token: str) -> None:
    """InvalidOption if the principal of this broker could not be allowed what brokers request of each other."""
    principal, protocol = _own_principal(config, own_token)
    if principal is None:
        raise InvalidOption("ssl.principal.mapping.rules: no rule matches the subject of this broker's own certificate")
    if not may_be_broker(config, principal, AclIndex(_cluster_acls(store))):
        raise InvalidOption(
            f"super.users: brokers connect to each other as {principal} ({protocol}), which may not do that; add it to "
            "super.users, or give it CLUSTER_ACTION on the cluster with kafka-acls, or choose how brokers log in with "
            "security.inter.broker.protocol"
        )


def _own_principal(config: BrokerConfig, own_token: str) -> tuple[str | None, str]:
    """(this broker as others know it, the protocol between brokers)."""
    between = listeners.inter_broker_listener(config)
    protocol = next(each.security for each in listeners.bound(config) if each.listener == between)
    own = listeners.options_of(config, between)
    if protocol.startswith("SASL"):
        return f"User:{sasl.own_user(own, own_token)}", protocol
    return (tls.own_principal(own) if protocol == "SSL" else tls.ANONYMOUS), protocol


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
