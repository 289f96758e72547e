"""OffsetCommit and TxnOffsetCommit: who may commit for a group, and which records are written."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from tidelog.coordinator.contract import Change, ProducerIdAndEpoch, Result
from tidelog.coordinator.group.classic.group import ClassicGroup, ClassicGroupState
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.member import ConsumerMember
from tidelog.coordinator.group.consumer.member_lookup import known_member
from tidelog.coordinator.group.consumer.topics import TopicIdPartition, id_of
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.records import NO_EXPIRY
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.groups.group_records import OffsetCommitKey, OffsetCommitValue
from tidelog.wire.messages.transactions.transaction_requests import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

GROUP_ID_NOT_FOUND_VERSION = 9
"""Before this version of OffsetCommit clients only understand ILLEGAL_GENERATION for an unknown group."""
NO_RETENTION = -1


class Position(Protocol):
    """A partition of an OffsetCommit or a TxnOffsetCommit."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


def commit(machine: GroupMachine, request: OffsetCommitRequest, version: int) -> Result:
    """Raises ApiError with the code for every partition. Topics have both name and ID if they are known."""
    group = _checked_group(machine, request, version)
    if group is not None and group.is_in(ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE):
        member = group.members[request.member_id]
        machine.renew_session(group, member.member_id, member.session_timeout_ms)
    result = Result(OffsetCommitResponse())
    expiry = NO_EXPIRY if request.retention_time_ms == NO_RETENTION else machine.wall + request.retention_time_ms
    for topic in request.topics:
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        result.response.topics.append(answer)
        for partition in topic.partitions:
            change = change_of(machine, request.group_id, topic.name, partition, expiry=expiry, topic_id=topic.topic_id)
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE if change is None else ErrorCode.NONE
            if change is not None:
                result.changes.append(change)
            answer.partitions.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            )
    return result


def change_of(
    machine: GroupMachine, group_id: str, topic: str, partition: Position, *, expiry: int = NO_EXPIRY, topic_id: bytes
) -> Change | None:
    """The record of a committed offset; None if its metadata exceeds `offset.metadata.max.bytes`."""
    metadata = partition.committed_metadata or ""
    if len(metadata) > machine.config.offset_metadata_max_bytes:
        return None
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=machine.wall,
        expire_timestamp=expiry,
        topic_id=topic_id,
    )
    return Change(OffsetCommitKey(group=group_id, topic=topic, partition=partition.partition_index), value)


def _checked_group(machine: GroupMachine, request: OffsetCommitRequest, version: int) -> ClassicGroup | None:
    """None for a consumer group, and for a group that this commit creates: a client that assigns partitions to itself
    needs no group."""
    consumer_group = machine.consumers.newest.get(request.group_id)
    if consumer_group is not None:
        member_id, epoch = request.member_id, request.generation_id_or_member_epoch
        check_consumer_commit(consumer_group, member_id, epoch, _requested_partitions(request), version=version)
        return None
    group = machine.groups.get(request.group_id)
    if group is not None:
        check_classic_commit(group, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
    elif request.generation_id_or_member_epoch >= 0:
        if version >= GROUP_ID_NOT_FOUND_VERSION:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    return group


def _requested_partitions(request: OffsetCommitRequest) -> Iterator[TopicIdPartition]:
    return ((topic.topic_id, partition.partition_index) for topic in request.topics for partition in topic.partitions)


def check_classic_commit(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> None:
    """Raises ApiError unless the sender is a member of this generation, or the group is empty and the sender names no
    generation."""
    if generation < 0 and group.is_in(ClassicGroupState.EMPTY):
        return
    if generation < 0 and not member_id and instance_id is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(member_id, instance_id)
    if generation != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    if group.is_in(ClassicGroupState.COMPLETING_REBALANCE):
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)


def commit_error(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """The code for every partition of the request."""
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=topics)


def commit_in_transaction(machine: GroupMachine, request: TxnOffsetCommitRequest) -> Result:
    """Raises ApiError with the code for every partition."""
    _check_transactional(machine, request)
    result = Result(TxnOffsetCommitResponse())
    result.transaction = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    for topic in request.topics:
        answer = TxnOffsetCommitResponseTopic(name=topic.name)
        result.response.topics.append(answer)
        topic_id = id_of(machine.cluster, topic.name)
        for partition in topic.partitions:
            change = change_of(machine, request.group_id, topic.name, partition, topic_id=topic_id)
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE if change is None else ErrorCode.NONE
            if change is not None:
                result.changes.append(change)
            answer.partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            )
    return result


def _check_transactional(machine: GroupMachine, request: TxnOffsetCommitRequest) -> None:
    """A producer that names no generation is accepted; one that does must be that member (KIP-447)."""
    generation = request.generation_id
    consumer_group = machine.consumers.newest.get(request.group_id)
    if consumer_group is not None:
        member_id, instance_id = request.member_id, request.group_instance_id
        _check_consumer_transactional(
            consumer_group, member_id, instance_id, generation, _transactional_partitions(machine, request)
        )
        return
    group = machine.groups.get(request.group_id)
    if group is None:
        if generation >= 0:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return
    if generation < 0 and group.is_in(ClassicGroupState.EMPTY):
        return
    if generation >= 0 or request.member_id or request.group_instance_id is not None:
        group.check_member(request.member_id, request.group_instance_id)
        if generation != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)


def _transactional_partitions(machine: GroupMachine, request: TxnOffsetCommitRequest) -> Iterator[TopicIdPartition]:
    """Partitions of deleted topics have ID zero, which no member owns."""
    for topic in request.topics:
        for partition in topic.partitions:
            yield id_of(machine.cluster, topic.name), partition.partition_index


def transactional_commit_error(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    """The code for every partition of the request."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


MEMBER_EPOCH_VERSION = 9
"""From this version OffsetCommit carries a member epoch."""
NO_EPOCH = -1


def check_consumer_commit(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    partitions: Iterable[TopicIdPartition],
    *,
    version: int = MEMBER_EPOCH_VERSION,
) -> None:
    """Raises ApiError unless the group is empty, or a member commits in its present epoch, or in an older one for
    partitions that it has owned since then (KIP-1251)."""
    if epoch < 0 and not group.members:
        return
    member = known_member(group, member_id)
    if not member.is_classic and version < MEMBER_EPOCH_VERSION:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if epoch == member.current.epoch:
        return
    if epoch > member.current.epoch or any(_is_stale(member, partition, epoch) for partition in partitions):
        raise ApiError(stale_epoch(member))


def _is_stale(member: ConsumerMember, partition: TopicIdPartition, epoch: int) -> bool:
    since = member.current.assigned.get(partition, member.current.revoking.get(partition))
    return since is None or epoch < since


def stale_epoch(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def _check_consumer_transactional(
    group: ConsumerGroup, member_id: str, instance_id: str | None, epoch: int, partitions: Iterable[TopicIdPartition]
) -> None:
    """As `check_consumer_commit`; a producer that names no member is accepted (KIP-447)."""
    if epoch == NO_EPOCH and not member_id and instance_id is None:
        return
    check_consumer_commit(group, member_id, epoch, partitions)
