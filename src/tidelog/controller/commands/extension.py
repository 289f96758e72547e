"""Partitions added to topics: CreatePartitions, with replicas that continue the topic's round, or as given by hand."""

from collections import Counter
from collections.abc import Sequence

from tidelog.controller import tree
from tidelog.controller.commands.topics import (
    TOO_MANY,
    Plan,
    carry_out,
    check_hand_made,
    check_once,
    exceeds_count,
    placed,
    push_partitions,
)
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Group, Slices, Steps
from tidelog.controller.placement import Start, order_of
from tidelog.controller.state import Topic
from tidelog.errors import ApiError, ErrorCode
from tidelog.ports import Write
from tidelog.wire.messages.topics.topic_changes import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tidelog.wire.refusals import refuse


def create_partitions(term: ControllerTerm, request: CreatePartitionsRequest) -> Steps[CreatePartitionsResponse]:
    if exceeds_count(_added(term, requested) for requested in request.topics):
        refusal: CreatePartitionsResponse = refuse(request, ErrorCode.POLICY_VIOLATION, TOO_MANY)
        return refusal
    results = []
    plans: list[Plan] = []
    slices = Slices()
    counted = Counter(topic.name for topic in request.topics)
    for requested in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=requested.name)
        results.append(result)
        try:
            check_once(counted[requested.name])
            plan = yield from plan_extension(term, requested, slices)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        plans.append(plan)
    if not request.validate_only:
        yield from extend(term, plans, slices)
    return CreatePartitionsResponse(results=results)


def _added(term: ControllerTerm, requested: CreatePartitionsTopic) -> int:
    topic = term.cluster.topics.get(requested.name)
    return 0 if topic is None else max(0, requested.count - len(topic.assignment.replicas))


def extend(term: ControllerTerm, plans: Sequence[Plan], slices: Slices) -> Steps[None]:
    """The plans hold detached topics: the real ones take their assignments over once all is committed."""
    yield from carry_out(term, plans, slices)
    for plan in plans:
        topic = term.cluster.topics[plan.topic.name]
        topic.assignment = plan.topic.assignment
        topic.version += 1
        for partition in plan.topic.partitions.values():
            partition.topic = topic
            topic.partitions[partition.index] = partition
        push_partitions(term, plan)
        term.report("topic.extended", topic=topic.name, partitions=len(topic.partitions))


def plan_extension(term: ControllerTerm, requested: CreatePartitionsTopic, slices: Slices) -> Steps[Plan]:
    topic = term.cluster.topics.get(requested.name)
    if topic is None or topic.marked:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.assignment.replicas)
    if requested.count <= present:
        message = f"Topic {requested.name} has {present} partition(s); {requested.count} would not be an increase."
        raise ApiError(ErrorCode.INVALID_PARTITIONS, message)
    added = yield from _added_replicas(term, requested, topic, present, slices)
    assignment = topic.assignment._replace(replicas={**topic.assignment.replicas, **added})
    future = Topic(topic.name, assignment, topic.version)
    head: Group = [Write(tree.topic_path(topic.name), tree.format_assignment(assignment), topic.version)]
    return Plan(future, head, added.keys())


def _added_replicas(
    term: ControllerTerm, requested: CreatePartitionsTopic, topic: Topic, present: int, slices: Slices
) -> Steps[dict[int, tuple[int, ...]]]:
    first = topic.partitions[0].target if 0 in topic.partitions else topic.assignment.replicas[0]
    count = requested.count - present
    if requested.assignments is None:
        racks = term.usable_racks()
        order = order_of(racks)
        index = order.index(first[0]) if first[0] in order else 0
        return (yield from placed(racks, count, len(first), Start(index, index), slices, present))
    if len(requested.assignments) != count:
        message = f"{count} partition(s) would be added, but {len(requested.assignments)} are assigned."
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    for offset, given in enumerate(requested.assignments):
        check_hand_made(term, present + offset, given.broker_ids, len(first))
    return {present + offset: tuple(given.broker_ids) for offset, given in enumerate(requested.assignments)}
