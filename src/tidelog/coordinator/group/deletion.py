"""Deleting groups and committed offsets: requested by an operator, because a topic was deleted, or because they
expired.

If a group has members, its offsets expire counted from their commit; if it is empty, from the time its last member left
(KIP-211). Offsets of a topic that the group subscribes to do not expire.
"""

from collections.abc import Iterable
from functools import partial
from itertools import chain

from tidelog.coordinator.contract import Change, Result
from tidelog.coordinator.group.classic.group import CONSUMER, WITH_MEMBERS, ClassicGroup, ClassicGroupState
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.records import group_tombstones as consumer_tombstones
from tidelog.coordinator.group.consumer.topics import id_of
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.offset_table import Committed, is_expired
from tidelog.coordinator.group.records import NO_TIME, group_tombstone, offset_tombstone
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import NO_ID, TopicPartition
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tidelog.wire.messages.groups.group_admin import DeletableGroupResult


def delete_groups(machine: GroupMachine, group_ids: Iterable[str]) -> Result:
    """The response is a list with one result per group."""
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
    positions = {*machine.offsets.newest(group_id), *machine.pending_offsets.of_group(group_id)}
    tombstones = [offset_tombstone(group_id, topic, partition) for topic, partition in sorted(positions)]
    return [*tombstones, *group_tombstones(group)]


def _group(machine: GroupMachine, group_id: str) -> ClassicGroup | ConsumerGroup:
    """Raises ApiError GROUP_ID_NOT_FOUND."""
    return machine.consumers.newest.get(group_id) or machine.group(group_id)


def group_tombstones(group: ClassicGroup | ConsumerGroup) -> list[Change]:
    """The records that delete a group without members."""
    if isinstance(group, ConsumerGroup):
        return consumer_tombstones(group.group_id, group.members, group.regexes)
    return [group_tombstone(group.group_id)]


def delete_offsets(machine: GroupMachine, request: OffsetDeleteRequest) -> Result:
    """Raises ApiError with the code for the whole request."""
    group = _group(machine, request.group_id)
    if isinstance(group, ClassicGroup) and group.state in WITH_MEMBERS and group.protocol_type != CONSUMER:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP)
    result = Result(OffsetDeleteResponse())
    for topic in request.topics:
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.subscribes_to(topic.name) else ErrorCode.NONE
        result.response.topics.append(_deleted_topic(topic, code))
        if code == ErrorCode.NONE:
            result.changes += _offset_tombstones(machine, group.group_id, topic)
    return result


def _deleted_topic(topic: OffsetDeleteRequestTopic, code: ErrorCode) -> OffsetDeleteResponseTopic:
    partitions = [
        OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
        for partition in topic.partitions
    ]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def _offset_tombstones(machine: GroupMachine, group_id: str, topic: OffsetDeleteRequestTopic) -> list[Change]:
    positions = {*machine.offsets.newest(group_id), *machine.pending_offsets.of_group(group_id)}
    indexes = (partition.partition_index for partition in topic.partitions)
    return [
        offset_tombstone(group_id, topic.name, index)
        for index in indexes
        if TopicPartition(topic.name, index) in positions
    ]


def forget_topics(machine: GroupMachine, topics: Iterable[str]) -> Result:
    """The topics were deleted, or created again under the same names: offsets committed for the old ones are no longer
    valid. A tombstone also removes pending offsets, so none is written if a transaction has an offset for the new
    topic."""
    gone: dict[tuple[str, TopicPartition], None] = {}
    kept: set[tuple[str, TopicPartition]] = set()
    for topic in topics:
        present = id_of(machine.cluster, topic)
        positions = chain(machine.offsets.with_topic(topic), machine.pending_offsets.with_topic(topic))
        for group_id, partition, committed in positions:
            if present == NO_ID or committed.topic_id != present:
                gone[group_id, partition] = None
            else:
                kept.add((group_id, partition))
    tombstones = [
        offset_tombstone(group_id, *partition) for group_id, partition in gone if (group_id, partition) not in kept
    ]
    return Result(changes=tombstones)


EXPIRY_TIMER = "expiry"
MAX_TOMBSTONES = 1000
"""Limit of one batch, which must not exceed max.message.bytes; the rest goes in the next one."""
MINUTE_MS = 60_000


def schedule_expiry(machine: GroupMachine) -> None:
    delay_ms = machine.config.offsets_retention_check_interval_ms
    machine.shard.set_timer(EXPIRY_TIMER, delay_ms, partial(expire_offsets, machine))


def expire_offsets(machine: GroupMachine) -> Result:
    tombstones: list[Change] = []
    groups: list[ClassicGroup | ConsumerGroup] = [*machine.groups.values(), *machine.consumers.newest.values()]
    for group in groups:
        tombstones += _expired_tombstones(machine, group)
        if len(tombstones) >= MAX_TOMBSTONES:
            machine.shard.set_timer(EXPIRY_TIMER, 0, partial(expire_offsets, machine))
            return Result(changes=tombstones)
    schedule_expiry(machine)
    return Result(changes=tombstones)


def _expired_tombstones(machine: GroupMachine, group: ClassicGroup | ConsumerGroup) -> list[Change]:
    """Tombstones for the group's expired offsets, and for the group itself if nothing of it is left."""
    positions = machine.offsets.newest(group.group_id)
    pending = machine.pending_offsets.of_group(group.group_id)
    gone = [
        where
        for where, committed in positions.items()
        if where not in pending and _is_gone(machine, group, where, committed)
    ]
    tombstones = [offset_tombstone(group.group_id, *where) for where in gone]
    if len(gone) == len(positions) and not pending and _is_empty(group):
        tombstones += group_tombstones(group)
        machine.shard.event("group.expired", group=group.group_id)
    return tombstones


def _is_empty(group: ClassicGroup | ConsumerGroup) -> bool:
    return group.is_in(ClassicGroupState.EMPTY) if isinstance(group, ClassicGroup) else not group.members


def _is_gone(
    machine: GroupMachine, group: ClassicGroup | ConsumerGroup, where: TopicPartition, committed: Committed
) -> bool:
    base_timestamp = _base_timestamp(group, committed)
    if base_timestamp is None or group.subscribes_to(where.topic):
        return False
    retention_ms = machine.config.offsets_retention_minutes * MINUTE_MS
    return is_expired(committed, base_timestamp, machine.wall, retention_ms)


def _base_timestamp(group: ClassicGroup | ConsumerGroup, committed: Committed) -> int | None:
    """The time that the retention is counted from; None while offsets may not expire."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return committed.commit_timestamp
    if group.is_in(ClassicGroupState.EMPTY):
        return committed.commit_timestamp if group.state_timestamp == NO_TIME else group.state_timestamp
    if (
        group.protocol_type == CONSUMER
        and group.subscribed_topics is not None
        and group.is_in(ClassicGroupState.STABLE)
    ):
        return committed.commit_timestamp
    return None
