"""Deleting groups, and positions of a group, by an operator's wish or because their topic is gone."""

from collections.abc import Iterable
from itertools import chain

from tidelog.coordinator.contract import Change, Result
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.records import group_tombstones as consumer_tombstones
from tidelog.coordinator.group.consumer.topics import id_of
from tidelog.coordinator.group.group import Group
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.protocols import CONSUMER
from tidelog.coordinator.group.records import group_tombstone, offset_tombstone
from tidelog.coordinator.group.state import WITH_MEMBERS
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import NO_ID, TopicPartition
from tidelog.wire.messages.groups.delete_groups import DeletableGroupResult
from tidelog.wire.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def delete_groups(machine: GroupMachine, group_ids: Iterable[str]) -> Result:
    """The response is a list with one result a group."""
    result = Result(response=[])
    for group_id in group_ids:
        code = ErrorCode.NONE
        try:
            result.changes += _delete_group(machine, group_id)
        except ApiError as error:
            code = error.code
        result.response.append(DeletableGroupResult(group_id=group_id, error_code=code))
    return result


def _delete_group(machine: GroupMachine, group_id: str) -> list[Change]:
    group = _group(machine, group_id)
    if group.members if isinstance(group, ConsumerGroup) else group.state in WITH_MEMBERS:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP)
    positions = {*machine.offsets.newest(group_id), *machine.pending.of_group(group_id)}
    tombstones = [offset_tombstone(group_id, topic, partition) for topic, partition in sorted(positions)]
    return [*tombstones, *group_tombstones(group)]


def _group(machine: GroupMachine, group_id: str) -> Group | ConsumerGroup:
    """ApiError GROUP_ID_NOT_FOUND."""
    return machine.consumers.newest.get(group_id) or machine.group(group_id)


def group_tombstones(group: Group | ConsumerGroup) -> list[Change]:
    """What ends a group that has no members."""
    if isinstance(group, ConsumerGroup):
        return consumer_tombstones(group.group_id, group.members, group.regexes)
    return [group_tombstone(group.group_id)]


def delete_offsets(machine: GroupMachine, request: OffsetDeleteRequest) -> Result:
    """ApiError with the code for the whole request."""
    group = _group(machine, request.group_id)
    if isinstance(group, Group) and group.state in WITH_MEMBERS and group.protocol_type != CONSUMER:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP)
    result = Result(OffsetDeleteResponse())
    for topic in request.topics:
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.subscribes_to(topic.name) else ErrorCode.NONE
        result.response.topics.append(_deleted_topic(topic, code))
        if code == ErrorCode.NONE:
            result.changes += _tombstones(machine, group.group_id, topic)
    return result


def _deleted_topic(topic: OffsetDeleteRequestTopic, code: ErrorCode) -> OffsetDeleteResponseTopic:
    partitions = [
        OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
        for partition in topic.partitions
    ]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def _tombstones(machine: GroupMachine, group_id: str, topic: OffsetDeleteRequestTopic) -> list[Change]:
    positions = {*machine.offsets.newest(group_id), *machine.pending.of_group(group_id)}
    indexes = (partition.partition_index for partition in topic.partitions)
    return [
        offset_tombstone(group_id, topic.name, index)
        for index in indexes
        if TopicPartition(topic.name, index) in positions
    ]


def forget_topics(machine: GroupMachine, topics: Iterable[str]) -> Result:
    """The topics are deleted, or replaced by others of their names: positions in them mean nothing any more. Tombstones
    end what is pending, too, so there is none where a transaction has a position in the new topic."""
    gone: dict[tuple[str, TopicPartition], None] = {}
    kept: set[tuple[str, TopicPartition]] = set()
    for topic in topics:
        present = id_of(machine.cluster, topic)
        positions = chain(machine.offsets.with_topic(topic), machine.pending.with_topic(topic))
        for group_id, partition, committed in positions:
            if present == NO_ID or committed.topic_id != present:
                gone[group_id, partition] = None
            else:
                kept.add((group_id, partition))
    tombstones = [
        offset_tombstone(group_id, *partition) for group_id, partition in gone if (group_id, partition) not in kept
    ]
    return Result(changes=tombstones)
