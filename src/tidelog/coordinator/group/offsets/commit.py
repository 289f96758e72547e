"""OffsetCommit: who may commit for a group, and what is written."""

from collections.abc import Iterator
from typing import Protocol

from tidelog.coordinator.contract import Change, Result
from tidelog.coordinator.group.consumer import commits
from tidelog.coordinator.group.consumer.topic_partitions import Place
from tidelog.coordinator.group.group import Group
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.records import NO_EXPIRY
from tidelog.coordinator.group.state import GroupState
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.groups.group_records import OffsetCommitKey, OffsetCommitValue
from tidelog.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

GROUP_ID_NOT_FOUND_VERSION = 9
"""Before this version of OffsetCommit clients know only ILLEGAL_GENERATION for a group that is not there."""
NO_RETENTION = -1


class Position(Protocol):
    """A partition of an OffsetCommit or a TxnOffsetCommit."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


def commit(machine: GroupMachine, request: OffsetCommitRequest, version: int) -> Result:
    """ApiError with the code for every partition. Topics carry both name and id, as far as they are known."""
    group = _checked_group(machine, request, version)
    if group is not None and group.is_in(GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        member = group.members[request.member_id]
        machine.watch(group, member.member_id, member.session_timeout_ms)
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
    """What a committed position writes; None where its metadata is longer than `offset.metadata.max.bytes`."""
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


def _checked_group(machine: GroupMachine, request: OffsetCommitRequest, version: int) -> Group | None:
    """None for a consumer group, and for one that this commit makes: a client that assigns partitions to itself needs
    none."""
    consumer_group = machine.consumers.newest.get(request.group_id)
    if consumer_group is not None:
        member_id, epoch = request.member_id, request.generation_id_or_member_epoch
        commits.check_commit(consumer_group, member_id, epoch, _places(request), version=version)
        return None
    group = machine.groups.get(request.group_id)
    if group is not None:
        check_commit(group, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
    elif request.generation_id_or_member_epoch >= 0:
        if version >= GROUP_ID_NOT_FOUND_VERSION:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    return group


def _places(request: OffsetCommitRequest) -> Iterator[Place]:
    return ((topic.topic_id, partition.partition_index) for topic in request.topics for partition in topic.partitions)


def check_commit(group: Group, member_id: str, instance_id: str | None, generation: int) -> None:
    """ApiError unless the sender is a member of this generation, or nobody is and it claims no generation."""
    if generation < 0 and group.is_in(GroupState.EMPTY):
        return
    if generation < 0 and not member_id and instance_id is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(member_id, instance_id)
    if generation != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    if group.is_in(GroupState.COMPLETING_REBALANCE):
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
