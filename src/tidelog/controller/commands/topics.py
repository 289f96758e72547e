"""Topics created: checks in Kafka's order, placement, and the nodes that make a topic.

A topic exists once its node is committed; partitions whose state is missing then (the controller died between two
multis) are made by the next controller (`complete`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidelog.config import describe
from tidelog.config.alter import check_topic
from tidelog.config.broker import BrokerConfig
from tidelog.controller import topic_names, tree
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Group, Slices, Steps, submit
from tidelog.controller.leaders import first_state
from tidelog.controller.placement import Start, check_assignment, placements
from tidelog.controller.state import Partition, Topic
from tidelog.controller.tree import Assignment, LeadershipState
from tidelog.errors import ApiError, ErrorCode
from tidelog.log.names import METADATA_TOPIC
from tidelog.model import NO_ID, id_text
from tidelog.ports import Change, Create, Write
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.refusals import refuse

MAX_PARTITIONS = 10_000
"""Kafka's bound on the records of one request, and so on the partitions that it may create."""
TOO_MANY = f"Excessively large number of partitions per request: more than {MAX_PARTITIONS}."


@dataclass(slots=True)
class Plan:
    """Partitions about to be made: the nodes that go before theirs, their indexes, and, when these nodes were written,
    the partitions."""

    topic: Topic
    head: Group
    indexes: Collection[int]
    partitions: list[Partition] = field(default_factory=list)


def create_topics(term: ControllerTerm, request: CreateTopicsRequest) -> Steps[CreateTopicsResponse]:
    broker = term.broker_config()
    if exceeds_count(len(topic.assignments) or count_of(topic, broker) for topic in request.topics):
        refusal: CreateTopicsResponse = refuse(request, ErrorCode.POLICY_VIOLATION, TOO_MANY)
        return refusal
    results: list[CreatableTopicResult] = []
    planned: dict[str, tuple[Plan, dict[str, str]]] = {}
    counted = Counter(topic.name for topic in request.topics)
    slices = Slices()
    unified = {topic_names.unified(name): name for name in term.cluster.topics}
    shown = _Shown(broker)
    for requested in {topic.name: topic for topic in request.topics}.values():
        try:
            check_once(counted[requested.name])
            check_name(term, requested.name, unified)
            plan, configs = yield from plan_topic(term, requested, slices)
        except ApiError as error:
            results.append(
                CreatableTopicResult(
                    name=requested.name, error_code=error.code, error_message=error.message, configs=[]
                )
            )
            continue
        planned[requested.name] = plan, configs
        results.append(_created(plan, shown(configs)))
    if not request.validate_only:
        plans = [plan for plan, _ in planned.values()]
        yield from carry_out(term, plans, slices)
        for name, (plan, configs) in planned.items():
            _adopt(term, name, plan, configs)
            push_partitions(term, plan)
            yield from slices.count(len(plan.partitions))
    return CreateTopicsResponse(topics=results)


class _Shown:
    """The options in force as the answer lists them, made once for topics of the same configuration."""

    def __init__(self, broker: BrokerConfig) -> None:
        self.broker = broker
        self.known: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    def __call__(self, configs: dict[str, str]) -> list[CreatableTopicConfigs]:
        key = tuple(configs.items())
        if key not in self.known:
            self.known[key] = [
                CreatableTopicConfigs(
                    name=option.name,
                    value=option.value,
                    read_only=option.read_only,
                    config_source=option.source,
                    is_sensitive=option.is_sensitive,
                )
                for option in describe.describe_topic(configs, self.broker)
            ]
        return self.known[key]


def check_once(times: int) -> None:
    if times > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def exceeds_count(partitions: Iterable[int]) -> bool:
    """Whether all topics of a request together would get too many; looked at before anything is computed for one."""
    total = 0
    for count in partitions:
        total += count
        if total > MAX_PARTITIONS:
            return True
    return False


def count_of(requested: CreatableTopic, broker: BrokerConfig) -> int:
    """How many partitions are wanted; 0 for a number that is refused."""
    return broker.num_partitions if requested.num_partitions == -1 else max(0, requested.num_partitions)


def _created(plan: Plan, configs: list[CreatableTopicConfigs]) -> CreatableTopicResult:
    replicas = plan.topic.assignment.replicas
    return CreatableTopicResult(
        name=plan.topic.name,
        topic_id=plan.topic.id,
        error_message=None,
        num_partitions=len(replicas),
        replication_factor=len(replicas[0]),
        configs=configs,
    )


def _adopt(term: ControllerTerm, name: str, plan: Plan, configs: dict[str, str]) -> None:
    """The topic is committed: add it to the image and report it."""
    cluster, topic = term.cluster, plan.topic
    topic.version = 0
    cluster.add_topic(topic)
    cluster.configs[f"topics/{name}"] = configs
    cluster.config_versions[f"topics/{name}"] = cluster.config_versions.get(f"topics/{name}", -1) + 1
    term.report(
        "topic.created",
        topic=name,
        topic_id=id_text(topic.id),
        partitions=len(topic.assignment.replicas),
        replication_factor=len(topic.assignment.replicas[0]),
    )


def check_name(term: ControllerTerm, name: str, unified: dict[str, str]) -> None:
    if name == METADATA_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"The internal topic {name} cannot be created.")
    if (fault := topic_names.fault(name)) is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    existing = term.cluster.topics.get(name)
    if existing is not None:
        state = "is marked for deletion" if existing.marked else "already exists"
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' {state}.")
    colliding = unified.get(topic_names.unified(name))
    if colliding is not None:
        message = f"Topic '{name}' collides with the existing topic '{colliding}': '.' and '_' count as one."
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def plan_topic(term: ControllerTerm, requested: CreatableTopic, slices: Slices) -> Steps[tuple[Plan, dict[str, str]]]:
    """The plan to create the topic, and its options; ApiError if the request is invalid."""
    configs = _configs(term, requested)
    if requested.assignments:
        replicas = _assigned(term, requested)
        yield from slices.count(len(replicas))
    else:
        replicas = yield from _placed(term, requested, slices)
    topic = Topic(requested.name, Assignment(new_topic_id(term), replicas, {}, {}), -1)
    head: Group = [
        _config_node(term, requested.name, configs),
        Create(tree.topic_path(requested.name), tree.format_assignment(topic.assignment)),
        Create(tree.partitions_path(requested.name)),
    ]
    return Plan(topic, head, replicas.keys()), configs


def _config_node(term: ControllerTerm, name: str, configs: dict[str, str]) -> Change:
    """A configuration without a topic may be left from an earlier life of the name."""
    data = tree.format_config(configs)
    version = term.cluster.config_versions.get(f"topics/{name}")
    if version is None:
        return Create(tree.topic_config_path(name), data)
    return Write(tree.topic_config_path(name), data, version)


def _configs(term: ControllerTerm, requested: CreatableTopic) -> dict[str, str]:
    missing = [config.name for config in requested.configs if config.value is None]
    if missing:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"These topic configs have no value: {', '.join(missing)}.")
    configs = {config.name: config.value for config in requested.configs if config.value is not None}
    check_topic(configs, term.broker_config())
    return configs


def _assigned(term: ControllerTerm, requested: CreatableTopic) -> dict[int, tuple[int, ...]]:
    """The replicas as given by hand."""
    if requested.replication_factor != -1 or requested.num_partitions != -1:
        which = "a replication factor" if requested.replication_factor != -1 else "a number of partitions"
        raise ApiError(ErrorCode.INVALID_REQUEST, f"A manual partition assignment excludes {which}.")
    replicas: dict[int, tuple[int, ...]] = {}
    factor = None
    for given in requested.assignments:
        if given.partition_index in replicas:
            message = f"Partition {given.partition_index} is assigned more than once."
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        check_hand_made(term, given.partition_index, given.broker_ids, factor)
        factor = len(given.broker_ids)
        replicas[given.partition_index] = tuple(given.broker_ids)
    if set(replicas) != set(range(len(replicas))):
        message = "Partitions must be numbered from 0 without a gap."
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return dict(sorted(replicas.items()))


def check_hand_made(term: ControllerTerm, index: int, brokers: Sequence[int], factor: int | None) -> None:
    check_assignment(brokers, term.cluster.brokers, factor)
    if not any(broker in term.usable_racks() for broker in brokers):
        message = f"All brokers assigned to partition {index} are shutting down."
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _placed(term: ControllerTerm, requested: CreatableTopic, slices: Slices) -> Steps[dict[int, tuple[int, ...]]]:
    """The replicas as the round robin gives them."""
    if requested.replication_factor < -1 or requested.replication_factor == 0:
        message = "The replication factor must be larger than 0, or -1 for the default."
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if requested.num_partitions < -1 or requested.num_partitions == 0:
        message = "The number of partitions must be larger than 0, or -1 for the default."
        raise ApiError(ErrorCode.INVALID_PARTITIONS, message)
    config = term.broker_config()
    partitions = count_of(requested, config)
    factor = config.default_replication_factor if requested.replication_factor == -1 else requested.replication_factor
    racks = term.usable_racks()
    start = Start(term.number(max(1, len(racks))), term.number(max(1, len(racks))))
    return (yield from placed(racks, partitions, factor, start, slices))


def placed(
    racks: Mapping[int, str | None], partitions: int, factor: int, start: Start, slices: Slices, first: int = 0
) -> Steps[dict[int, tuple[int, ...]]]:
    """`place` in slices, by index."""
    replicas: dict[int, tuple[int, ...]] = {}
    for index, found in enumerate(placements(racks, partitions, factor, start, first), first):
        replicas[index] = found
        yield from slices.count()
    return replicas


def new_topic_id(term: ControllerTerm) -> bytes:
    """A version 4 UUID that does not print with a leading '-', which tools would take for a flag."""
    while True:
        drawn = bytearray(term.entropy(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        topic_id = bytes(drawn)
        if topic_id != NO_ID and topic_id not in term.cluster.topic_ids and not id_text(topic_id).startswith("-"):
            return topic_id


def carry_out(term: ControllerTerm, plans: Sequence[Plan], slices: Slices, made: Iterable[str] = ()) -> Steps[None]:
    """Write the nodes in as few multis as possible, then add the partitions to their topics. `made`: the partition
    nodes that exist already, without a state."""
    existing = set(made)
    groups: list[Group] = []
    states: list[tuple[Partition, LeadershipState]] = []
    for plan in plans:
        groups.append(plan.head)
        for index in plan.indexes:
            partition = plan.topic.add(index)
            state = first_state(partition.replicas, term.cluster.lives)._replace(controller_epoch=term.epoch)
            groups.append(_nodes(partition, state, existing))
            plan.partitions.append(partition)
            states.append((partition, state))
            yield from slices.count()
    yield from submit(groups)
    for partition, state in states:
        partition.commit(state, 0)
        partition.topic.partitions[partition.index] = partition
        yield from slices.count()


def push_partitions(term: ControllerTerm, plan: Plan) -> None:
    """The topic is in the image, with these partitions."""
    term.pushes.push_roles(plan.partitions, created=True)
    term.pushes.push_metadata(plan.partitions)


def _nodes(partition: Partition, state: LeadershipState, existing: set[str]) -> Group:
    path = tree.partition_path(*partition.name)
    made: Group = [] if path in existing else [Create(path)]
    return [*made, Create(tree.state_path(*partition.name), tree.format_state(state))]


def complete(term: ControllerTerm, missing: dict[str, list[int]], made: Iterable[str]) -> Steps[None]:
    """Make the partitions that an earlier controller left without a state."""
    plans = [
        Plan(topic, [], indexes)
        for name, indexes in missing.items()
        if not (topic := term.cluster.topics[name]).deleted
    ]
    yield from carry_out(term, plans, Slices(), made)
    for plan in plans:
        push_partitions(term, plan)
