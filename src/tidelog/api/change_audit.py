"""What an administrative request changes, for the audit lines of a cluster with an authorizer: resource, before, after.

`before` is what the broker that received the request knew. Secrets are never shown: passwords are left out, and options
that may hold a secret have no values. An unknown option may: somebody may have set a broker's password on a topic.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tidelog.api.context import Context
from tidelog.config import alter
from tidelog.config.describe import may_be_secret
from tidelog.config.group import GroupConfig
from tidelog.config.loggers import LOGGERS
from tidelog.config.option import Options
from tidelog.config.quotas import entity_path
from tidelog.config.topic import TopicConfig
from tidelog.errors import ApiError
from tidelog.model import NO_ID, id_text
from tidelog.security.scram import BY_NUMBER
from tidelog.wire.message import key_of

HIDDEN = "[hidden]"
MOST = 100
"""Changes of one request that are described; the request may name many thousands."""


class Change(NamedTuple):
    """`before` and `after` are None where there is nothing."""

    resource: str
    before: object
    after: object


def changes(request: Any, context: Context) -> list[Change]:
    """At most MOST of what the request changes; nothing for an API that changes nothing."""
    describe = _CHANGES.get(key_of(request))
    if describe is None or getattr(request, "validate_only", False):
        return []
    found = describe(request, context)
    return [change for change, _ in zip(found, range(MOST), strict=False)]


def _create_topics(request: Any, _context: Context) -> Iterator[Change]:
    for topic in request.topics:
        partitions = len(topic.assignments) or topic.num_partitions
        options = _shown({each.name: each.value for each in topic.configs}, _is_unknown_to(TopicConfig))
        after = {"partitions": partitions, "replication_factor": topic.replication_factor, **options}
        yield Change(f"Topic:{topic.name}", None, after)


def _partition_count(name: str | None, topic_id: bytes, context: Context) -> int | None:
    image = context.broker.image
    topic = image.topics.get(name or image.topic_names.get(topic_id, ""))
    return None if topic is None else len(topic.partitions)


def _delete_topics(request: Any, context: Context) -> Iterator[Change]:
    for topic in request.topics:
        name = topic.name or context.broker.topic_name(topic.topic_id) or id_text(topic.topic_id)
        yield Change(f"Topic:{name}", {"partitions": _partition_count(topic.name, topic.topic_id, context)}, None)
    for name in request.topic_names:
        yield Change(f"Topic:{name}", {"partitions": _partition_count(name, NO_ID, context)}, None)


def _create_partitions(request: Any, context: Context) -> Iterator[Change]:
    for topic in request.topics:
        before = {"partitions": _partition_count(topic.name, NO_ID, context)}
        yield Change(f"Topic:{topic.name}", before, {"partitions": topic.count})


def _delete_records(request: Any, _context: Context) -> Iterator[Change]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield Change(f"Topic:{topic.name}-{partition.partition_index}", None, {"start_offset": partition.offset})


_RESOURCES = {alter.TOPIC: "Topic", alter.BROKER: "Broker", alter.BROKER_LOGGER: "BrokerLogger", alter.GROUP: "Group"}


def _options(resource: Any, context: Context) -> tuple[dict[str, str], Callable[[str], bool]]:
    """(the explicit options of the resource, whether an option's value is hidden)."""
    configs, name = context.broker.configs, resource.resource_name
    if resource.resource_type == alter.TOPIC:
        return configs.topic(name), _is_unknown_to(TopicConfig)
    if resource.resource_type == alter.GROUP:
        return configs.group(name), _is_unknown_to(GroupConfig)
    if resource.resource_type == alter.BROKER_LOGGER:
        return dict(context.broker.levels), lambda logger: logger not in LOGGERS
    return configs.broker(int(name) if name.isdecimal() else None), may_be_secret


def _is_unknown_to(options: type[Options]) -> Callable[[str], bool]:
    return lambda name: name not in options.OPTIONS


def _shown(values: Mapping[str, Any], is_hidden: Callable[[str], bool]) -> dict[str, Any]:
    return {name: HIDDEN if is_hidden(name) and value is not None else value for name, value in values.items()}


def _altered(resource: Any, context: Context, after: dict[str, Any], *, replaces: bool) -> Change:
    current, is_hidden = _options(resource, context)
    before = {name: value for name, value in current.items() if replaces or name in after}
    kind = _RESOURCES.get(resource.resource_type, str(resource.resource_type))
    return Change(f"{kind}:{resource.resource_name}", _shown(before, is_hidden), _shown(after, is_hidden))


def _alter_configs(request: Any, context: Context) -> Iterator[Change]:
    for resource in request.resources:
        yield _altered(resource, context, {each.name: each.value for each in resource.configs}, replaces=True)


_SIGNS = {alter.Operation.APPEND: "+", alter.Operation.SUBTRACT: "-"}


def _incremental_alter_configs(request: Any, context: Context) -> Iterator[Change]:
    for resource in request.resources:
        after = {
            each.name: None
            if each.config_operation == alter.Operation.DELETE
            else _SIGNS.get(each.config_operation, "") + (each.value or "")
            for each in resource.configs
        }
        yield _altered(resource, context, after, replaces=False)


def _alter_quotas(request: Any, context: Context) -> Iterator[Change]:
    for entry in request.entries:
        entity = {part.entity_type: part.entity_name for part in entry.entity}
        known: Mapping[str, float] = {}
        try:
            resource = entity_path(entity)
            _, known = context.broker.configs.quota(resource) or (entity, known)
        except ApiError:
            resource = str(entity)
        after = {op.key: None if op.remove else op.value for op in entry.ops}
        yield Change(f"Quota:{resource}", {name: known.get(name) for name in after}, after)


def _alter_credentials(request: Any, context: Context) -> Iterator[Change]:
    for change in (*request.deletions, *request.upsertions):
        mechanism = BY_NUMBER.get(change.mechanism)
        name = str(change.mechanism) if mechanism is None else mechanism.name
        before = HIDDEN if mechanism is not None and name in context.broker.configs.user(change.name) else None
        after = HIDDEN if hasattr(change, "salt") else None
        yield Change(f"User:{change.name}", {name: before}, {name: after})


def _acls(entries: str) -> Callable[[Any, Context], Iterator[Change]]:
    def describe(request: Any, _context: Context) -> Iterator[Change]:
        for each in getattr(request, entries):
            rule = {name: getattr(each, name) for name in each.__slots__}
            yield Change("Acl", None, rule) if entries == "creations" else Change("Acl", rule, None)

    return describe


def _new_token(request: Any, context: Context) -> Iterator[Change]:
    """Its id comes with the answer."""
    after = {
        "owner": f"{request.owner_principal_type}:{request.owner_principal_name}"
        if request.owner_principal_name
        else context.principal,
        "renewers": [f"{each.principal_type}:{each.principal_name}" for each in request.renewers[:MOST]],
        "max_lifetime_ms": request.max_lifetime_ms,
    }
    yield Change("DelegationToken", None, after)


def _token(period: str) -> Callable[[Any, Context], Iterator[Change]]:
    def describe(request: Any, context: Context) -> Iterator[Change]:
        known = context.broker.tokens.table.by_hmac(request.hmac)
        before = None if known is None else {"expires_ms": known.expires_ms}
        name = "unknown" if known is None else known.id
        yield Change(f"DelegationToken:{name}", before, {period: getattr(request, period)})

    return describe


def _groups(request: Any, _context: Context) -> Iterator[Change]:
    for name in request.groups_names:
        yield Change(f"Group:{name}", "exists", None)


def _offsets(request: Any, _context: Context) -> Iterator[Change]:
    for topic in request.topics:
        partitions = [partition.partition_index for partition in topic.partitions]
        yield Change(f"Group:{request.group_id}", {f"offsets of {topic.name}": partitions}, None)


def _reassignments(request: Any, context: Context) -> Iterator[Change]:
    for topic in request.topics:
        for partition in topic.partitions:
            known = context.broker.image.partition(topic.name, partition.partition_index)
            before = None if known is None else {"replicas": known.replicas}
            after = {"replicas": "as before the reassignment" if partition.replicas is None else partition.replicas}
            yield Change(f"Topic:{topic.name}-{partition.partition_index}", before, after)


def _elections(request: Any, _context: Context) -> Iterator[Change]:
    kind = "unclean" if request.election_type == 1 else "preferred"
    if request.topic_partitions is None:
        yield Change("Topic:*", None, {"election": kind})
    for topic in request.topic_partitions or ():
        for partition in topic.partitions:
            yield Change(f"Topic:{topic.topic}-{partition}", None, {"election": kind})


def _log_dirs(request: Any, _context: Context) -> Iterator[Change]:
    for folder in request.dirs:
        for topic in folder.topics:
            for partition in topic.partitions:
                yield Change(f"Topic:{topic.name}-{partition}", None, {"log_dir": folder.path})


def _unregister(request: Any, _context: Context) -> Iterator[Change]:
    yield Change(f"Broker:{request.broker_id}", "registered", None)


def _features(request: Any, context: Context) -> Iterator[Change]:
    for update in request.feature_updates:
        before = context.broker.image.features.get(update.feature)
        yield Change(f"Feature:{update.feature}", before, update.max_version_level)


def _add_voter(request: Any, _context: Context) -> Iterator[Change]:
    addresses = [f"{each.name}://{each.host}:{each.port}" for each in request.listeners]
    after = {"directory": id_text(request.voter_directory_id), "listeners": addresses}
    yield Change(f"Voter:{request.voter_id}", None, after)


def _remove_voter(request: Any, _context: Context) -> Iterator[Change]:
    yield Change(f"Voter:{request.voter_id}", {"directory": id_text(request.voter_directory_id)}, None)


_CHANGES: dict[int, Callable[[Any, Context], Iterator[Change]]] = {
    19: _create_topics,
    20: _delete_topics,
    21: _delete_records,
    30: _acls("creations"),
    31: _acls("filters"),
    33: _alter_configs,
    34: _log_dirs,
    37: _create_partitions,
    38: _new_token,
    39: _token("renew_period_ms"),
    40: _token("expiry_time_period_ms"),
    42: _groups,
    43: _elections,
    44: _incremental_alter_configs,
    45: _reassignments,
    47: _offsets,
    49: _alter_quotas,
    51: _alter_credentials,
    57: _features,
    64: _unregister,
    80: _add_voter,
    81: _remove_voter,
}
"""By the key of each API that changes something for others."""
AUDITED = frozenset(_CHANGES)
