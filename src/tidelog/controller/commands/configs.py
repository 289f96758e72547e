"""Options of topics, brokers and groups, and client quotas (KIP-546) altered.

What is requested is checked (`config.alter`, `config.quotas`), written to `/config`, and announced by a notification
below `/config/changes`. Every broker mirrors `/config`. Resources and entities are answered one by one: a refused
one does not prevent others from changing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tidelog.config import alter, quotas
from tidelog.config.alter import BROKER, CLIENT_METRICS, GROUP, TOPIC
from tidelog.config.quotas import node_name
from tidelog.controller import topic_names, tree
from tidelog.controller.commands.elections import LogEnds, elect_where_due
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.features import MIN_INSYNC_REPLICAS
from tidelog.controller.journal import Group, Steps, submit
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import NO_LEADER
from tidelog.ports import Create, Delete, Write
from tidelog.security.scram import MECHANISMS
from tidelog.wire.messages.cluster.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryDataResponse,
    OpData,
)
from tidelog.wire.messages.configs import alter_configs, incremental_alter_configs
from tidelog.wire.messages.configs.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from tidelog.wire.messages.configs.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

R = TypeVar("R", alter_configs.AlterConfigsResourceResponse, incremental_alter_configs.AlterConfigsResourceResponse)

OPERATIONS = frozenset(alter.Operation)
NOTIFICATIONS = 100
"""Notifications that are kept; older ones go when new ones come."""

Current = dict[str, str]


@dataclass(slots=True)
class Alteration:
    """One resource's new options, or why it has none. `entity` is its place below `/config`."""

    kind: int
    name: str
    entity: str = ""
    options: Current | None = None
    error: ApiError | None = None

    @property
    def code(self) -> ErrorCode:
        return self.error.code if self.error else ErrorCode.NONE

    @property
    def message(self) -> str | None:
        return self.error.message if self.error else None


def alter_incrementally(
    term: ControllerTerm, logs: LogEnds, request: IncrementalAlterConfigsRequest
) -> Steps[IncrementalAlterConfigsResponse]:
    """IncrementalAlterConfigs (KIP-339)."""

    def altered(resource: incremental_alter_configs.AlterConfigsResource, current: Current) -> Current:
        if any(config.config_operation not in OPERATIONS for config in resource.configs):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka's answer, too
        changes = [alter.Change(config.name, config.config_operation, config.value) for config in resource.configs]
        return _altered(term, resource, current, changes)

    done = _judge_all(term, request.resources, altered)
    yield from carry_out(term, logs, done, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(
        responses=_results(incremental_alter_configs.AlterConfigsResourceResponse, done)
    )


def replace(term: ControllerTerm, logs: LogEnds, request: AlterConfigsRequest) -> Steps[AlterConfigsResponse]:
    """AlterConfigs: options that are not named are removed."""

    def replaced(resource: alter_configs.AlterConfigsResource, _current: Current) -> Current:
        changes = [alter.Change(config.name, alter.Operation.SET, config.value) for config in resource.configs]
        return _altered(term, resource, {}, changes)

    done = _judge_all(term, request.resources, replaced)
    yield from carry_out(term, logs, done, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=_results(alter_configs.AlterConfigsResourceResponse, done))


Resource = incremental_alter_configs.AlterConfigsResource | alter_configs.AlterConfigsResource


def _altered(term: ControllerTerm, resource: Resource, current: Current, changes: Sequence[alter.Change]) -> Current:
    if resource.resource_type == TOPIC:
        return alter.alter_topic(current, changes, term.broker_config())
    if resource.resource_type == GROUP:
        return alter.alter_group(current, changes, term.broker_config())
    altered = alter.alter_broker(current, changes, cluster=not resource.resource_name)
    if term.cluster.has_elr and resource.resource_type == BROKER:
        _check_min_insync(term, resource.resource_name, {change.name for change in changes}, altered)
    return altered


def _check_min_insync(term: ControllerTerm, broker: str, named: set[str], altered: Current) -> None:
    """The controller must know it, because eligible leader replicas depend on it."""
    if broker and MIN_INSYNC_REPLICAS in named:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        )
    there = term.cluster.configs.get(f"brokers/{tree.DEFAULT_ENTITY}", {})
    if (
        not broker
        and MIN_INSYNC_REPLICAS not in altered
        and (MIN_INSYNC_REPLICAS in named or MIN_INSYNC_REPLICAS in there)
    ):
        raise ApiError(
            ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )


def _results(result: type[R], done: Iterable[Alteration]) -> list[R]:
    return [
        result(error_code=each.code, error_message=each.message, resource_type=each.kind, resource_name=each.name)
        for each in done
    ]


def _judge_all(
    term: ControllerTerm, resources: Sequence[Resource], altered: Callable[..., Current]
) -> list[Alteration]:
    counted = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    done = []
    for resource in resources:
        alteration = Alteration(resource.resource_type, resource.resource_name)
        done.append(alteration)
        try:
            alteration.entity = _entity(alteration, counted[alteration.kind, alteration.name])
            options = altered(resource, term.cluster.configs.get(alteration.entity, {}))
            _check_exists(term, alteration)
            alteration.options = options
        except ApiError as error:
            alteration.error = error
    return done


def _entity(alteration: Alteration, times: int) -> str:
    """The path of the resource's options below `/config`."""
    name = alteration.name
    if times > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "A resource appears more than once in the request.")
    if alteration.kind == BROKER:
        return f"brokers/{_broker(name)}"
    if alteration.kind == GROUP and name:
        return f"groups/{node_name(name)}"
    if alteration.kind == CLIENT_METRICS:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics (KIP-714) are not supported.")
    if alteration.kind not in (TOPIC, GROUP):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Resources of type {alteration.kind} cannot be altered.")
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Only brokers have default options; name the resource.")
    return f"topics/{name}"


def _check_exists(term: ControllerTerm, alteration: Alteration) -> None:
    topic = term.cluster.topics.get(alteration.name)
    if alteration.kind == TOPIC and (fault := topic_names.fault(alteration.name)) is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    if alteration.kind == TOPIC and (topic is None or topic.deleted):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{alteration.name}' does not exist.")


def _broker(name: str) -> str:
    if name and not name.isdecimal():
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid broker ID {name!r}; expected an integer.")
    return str(int(name)) if name else tree.DEFAULT_ENTITY


def carry_out(term: ControllerTerm, logs: LogEnds, done: Sequence[Alteration], *, validate_only: bool) -> Steps[None]:
    """Write what was accepted, and apply it."""
    accepted = [each for each in done if each.options is not None]
    if validate_only or not accepted:
        return
    yield from write(term, accepted)
    yield from apply_options(term, logs)


def apply_options(term: ControllerTerm, logs: LogEnds) -> Steps[None]:
    """Elect leaders that new options allow, and end eligible leader replicas where enough replicas are in sync now.
    Until then the leader does not commit anything, whatever `min.insync.replicas` it knows."""
    affected = [
        p for p in term.cluster.partitions() if p.state.leader == NO_LEADER or p.state.elr or p.state.last_known
    ]
    yield from elect_where_due(term, logs, affected, "options changed")


def write(term: ControllerTerm, accepted: Sequence[Alteration]) -> Steps[None]:
    """Write the new options with a notification of each, and forget the oldest notifications."""
    number = max(term.cluster.config_changes, default=-1) + 1
    known = set(term.cluster.config_versions)
    groups = [_write(term, each, number + offset, known) for offset, each in enumerate(accepted)]
    outdated = term.cluster.config_changes[: max(0, len(term.cluster.config_changes) + len(groups) - NOTIFICATIONS)]
    groups += [[Delete(tree.config_change_path(old))] for old in outdated]
    yield from submit(groups)
    term.cluster.config_changes = [
        *term.cluster.config_changes[len(outdated) :],
        *range(number, number + len(accepted)),
    ]
    for each in accepted:
        _adopt(term, each)


def _write(term: ControllerTerm, each: Alteration, number: int, known: set[str]) -> Group:
    """`known` are the nodes there are, or will be when the groups before this one are written."""
    assert each.options is not None
    path, data = f"{tree.CONFIG}/{each.entity}", tree.format_config(each.options)
    version = term.cluster.config_versions.get(each.entity)
    missing = [parent for parent in _parents(each.entity) if parent not in known]
    node = Write(path, data, version or 0) if each.entity in known else Create(path, data)
    known.update([*missing, each.entity])
    notification = Create(tree.config_change_path(number), tree.format_config_change(each.entity))
    return [*(Create(f"{tree.CONFIG}/{parent}") for parent in missing), node, notification]


def _parents(entity: str) -> Sequence[str]:
    """The nodes above it that a store does not have from the start: only a user's clients are so deep."""
    parts = entity.split("/")
    return ["/".join(parts[:end]) for end in range(2, len(parts))]


def _adopt(term: ControllerTerm, each: Alteration) -> None:
    assert each.options is not None
    cluster = term.cluster
    changed = sorted(
        name
        for name in {*cluster.configs.get(each.entity, {}), *each.options}
        if cluster.configs.get(each.entity, {}).get(name) != each.options.get(name)
    )
    for parent in _parents(each.entity):
        cluster.config_versions.setdefault(parent, 0)
    cluster.configs[each.entity] = each.options
    cluster.config_versions[each.entity] = cluster.config_versions.get(each.entity, -1) + 1
    term.report("config.changed", entity=each.entity, options=changed)


ENTITY = 0
"""Quota entities have no resource type number of their own."""


def alter_quotas(
    term: ControllerTerm, logs: LogEnds, request: AlterClientQuotasRequest
) -> Steps[AlterClientQuotasResponse]:
    named = [
        (tuple(sorted(_quota_entity(entry).items(), key=lambda part: part[0])), entry) for entry in request.entries
    ]
    counted = Counter(name for name, _ in named)
    done = {name: _judge_quotas(term, dict(name), entry.ops, counted[name]) for name, entry in named}
    yield from carry_out(term, logs, list(done.values()), validate_only=request.validate_only)
    return AlterClientQuotasResponse(
        entries=[
            EntryDataResponse(
                error_code=each.code,
                error_message=each.message,
                entity=[EntityData(entity_type=kind, entity_name=word) for kind, word in name],
            )
            for name, each in done.items()
        ]
    )


def _quota_entity(entry: EntryData) -> dict[str, str | None]:
    return {part.entity_type: part.entity_name for part in entry.entity}


def _judge_quotas(term: ControllerTerm, entity: quotas.Entity, ops: Iterable[OpData], times: int) -> Alteration:
    try:
        allowed = quotas.check_entity(entity)
        if times > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "An entity appears more than once in the request.")
        place = quotas.entity_path(entity)
        return Alteration(ENTITY, "", place, _altered_quotas(term.cluster.configs.get(place, {}), list(ops), allowed))
    except ApiError as error:
        return Alteration(ENTITY, "", error=error)


def _altered_quotas(current: Current, ops: list[OpData], allowed: quotas.Allowed) -> Current:
    if len({op.key for op in ops}) < len(ops):
        raise ApiError(ErrorCode.INVALID_REQUEST, "A quota appears more than once for the entity.")
    altered = dict(current)
    for op in ops:
        if op.remove:
            if op.key not in MECHANISMS:  # a user's credentials are beside the quotas, and are none
                altered.pop(op.key, None)
        else:
            quotas.check_value(allowed, op.key, op.value)
            altered[op.key] = quotas.show(op.key, op.value)
    return altered
