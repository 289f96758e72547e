"""OffsetFetch: the committed offsets of one group."""

from collections.abc import Callable

from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.member_lookup import known_member
from tidelog.coordinator.group.consumer.topics import id_of
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.offset_commit import stale_epoch
from tidelog.coordinator.group.offset_table import Committed
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import NO_ID, TopicPartition
from tidelog.slices import SLICE, Sliced, begun
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET = -1

Find = Callable[[TopicPartition], Committed | None]


Fetched = OffsetFetchResponseGroup | Sliced[OffsetFetchResponseGroup]


def fetch(machine: GroupMachine, request: OffsetFetchRequestGroup, *, newest: bool) -> Fetched:
    """The newest offsets or the committed ones; all of them if the request names no topics, in slices if they are many.
    An unknown group has no committed offsets."""
    consumers = machine.consumers.newest if newest else machine.consumers.committed
    consumer_group = consumers.get(request.group_id)
    if consumer_group is not None:
        try:
            _check_consumer_fetch(consumer_group, request.member_id, request.member_epoch)
        except ApiError as error:
            return fetch_error(request, error.code)
    positions = machine.offsets.newest(request.group_id) if newest else machine.offsets.all_committed(request.group_id)
    pending = machine.pending_offsets.of_group(request.group_id) if newest else set()
    if request.topics is None:
        found: Fetched = begun(_fetch_all(machine, request, dict(positions), pending))
        return found
    response = OffsetFetchResponseGroup(group_id=request.group_id)
    try:
        response.topics = [_topic(machine, topic, positions.get) for topic in request.topics]
    except ApiError as error:
        return fetch_error(request, error.code)
    for topic in response.topics if pending else ():
        _mark_unstable(topic, pending)
    return response


def _fetch_all(
    machine: GroupMachine,
    request: OffsetFetchRequestGroup,
    positions: dict[TopicPartition, Committed],
    pending: set[TopicPartition],
) -> Sliced[OffsetFetchResponseGroup]:
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for count, (position, committed) in enumerate(positions.items(), 1):
        if not count % SLICE:
            yield
        name = position.topic
        try:
            if _is_of_another_topic(machine, committed, name, NO_ID):
                continue
        except ApiError as error:
            return fetch_error(request, error.code)
        topic = topics.setdefault(name, OffsetFetchResponseTopics(name=name))
        topic.topic_id = committed.topic_id if topic.topic_id == NO_ID else topic.topic_id
        found = _unstable(position.partition) if position in pending else _partition(position.partition, committed)
        topic.partitions.append(found)
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=list(topics.values()))


def _check_consumer_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """Raises ApiError if the named member is unknown, or in another epoch. A request without a member is accepted."""
    if member_id is None and epoch < 0:
        return
    member = known_member(group, member_id or "")
    if epoch != member.current.epoch:
        raise ApiError(stale_epoch(member))


def _mark_unstable(topic: OffsetFetchResponseTopics, pending: set[TopicPartition]) -> None:
    for number, partition in enumerate(topic.partitions):
        if TopicPartition(topic.name, partition.partition_index) in pending:
            topic.partitions[number] = _unstable(partition.partition_index)


def _unstable(index: int) -> OffsetFetchResponsePartitions:
    """A fetch of stable offsets is told to retry for partitions with an undecided transaction."""
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=NO_OFFSET,
        metadata="",
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )


def fetch_error(request: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup:
    """Old consumers do not know COORDINATOR_NOT_AVAILABLE here; NOT_COORDINATOR makes them find another one."""
    if code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        code = ErrorCode.NOT_COORDINATOR
    return OffsetFetchResponseGroup(group_id=request.group_id, error_code=code)


def _topic(machine: GroupMachine, topic: OffsetFetchRequestTopics, find: Find) -> OffsetFetchResponseTopics:
    answer = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id)
    for index in topic.partition_indexes:
        committed = find(TopicPartition(topic.name, index))
        if committed is not None and _is_of_another_topic(machine, committed, topic.name, topic.topic_id):
            committed = None
        answer.partitions.append(_partition(index, committed))
    return answer


def _is_of_another_topic(machine: GroupMachine, committed: Committed, name: str, requested_id: bytes) -> bool:
    """Whether the offset belongs to a deleted topic of the same name. A request without an ID means the topic that has
    the name now; raises ApiError while this broker may not know that one yet."""
    topic_id = id_of(machine.cluster, name) if requested_id == NO_ID else requested_id
    if NO_ID in (committed.topic_id, topic_id) or committed.topic_id == topic_id:
        return False
    if requested_id == NO_ID and not machine.cluster.has_epoch_of(machine.shard.partition, machine.shard.epoch):
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return True


def _partition(index: int, committed: Committed | None) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, metadata="")
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )
