"""Expiry: positions that nobody will ask for, and groups that nobody is in.

Positions of a group with members count from their commit, those of an empty group from when its last member left
(KIP-211). While a group subscribes to a topic its positions there stay.
"""

from functools import partial

from tidelog.coordinator.contract import Change, Result
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.deletion import group_tombstones
from tidelog.coordinator.group.group import Group
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.offsets.table import Committed, is_expired
from tidelog.coordinator.group.protocols import CONSUMER
from tidelog.coordinator.group.records import NO_TIME, offset_tombstone
from tidelog.coordinator.group.state import GroupState
from tidelog.model import TopicPartition

TIMER = "expiry"
MAX_TOMBSTONES = 1000
"""In one batch, which must not exceed max.message.bytes; the rest goes in the next."""
MINUTE_MS = 60_000


def schedule(machine: GroupMachine) -> None:
    delay_ms = machine.config.offsets_retention_check_interval_ms
    machine.shard.set_timer(TIMER, delay_ms, partial(expire, machine))


def expire(machine: GroupMachine) -> Result:
    tombstones: list[Change] = []
    groups: list[Group | ConsumerGroup] = [*machine.groups.values(), *machine.consumers.newest.values()]
    for group in groups:
        tombstones += _expired(machine, group)
        if len(tombstones) >= MAX_TOMBSTONES:
            machine.shard.set_timer(TIMER, 0, partial(expire, machine))
            return Result(changes=tombstones)
    schedule(machine)
    return Result(changes=tombstones)


def _expired(machine: GroupMachine, group: Group | ConsumerGroup) -> list[Change]:
    """Tombstones for what is expired of the group, and for the group itself if nothing of it is left."""
    positions = machine.offsets.newest(group.group_id)
    pending = machine.pending.of_group(group.group_id)
    gone = [
        where
        for where, committed in positions.items()
        if where not in pending and _is_gone(machine, group, where, committed)
    ]
    tombstones = [offset_tombstone(group.group_id, *where) for where in gone]
    if len(gone) == len(positions) and not pending and _is_empty(group):
        tombstones += group_tombstones(group)
    return tombstones


def _is_empty(group: Group | ConsumerGroup) -> bool:
    return group.is_in(GroupState.EMPTY) if isinstance(group, Group) else not group.members


def _is_gone(machine: GroupMachine, group: Group | ConsumerGroup, where: TopicPartition, committed: Committed) -> bool:
    base_timestamp = _base_timestamp(group, committed)
    if base_timestamp is None or group.subscribes_to(where.topic):
        return False
    retention_ms = machine.config.offsets_retention_minutes * MINUTE_MS
    return is_expired(committed, base_timestamp, machine.wall, retention_ms)


def _base_timestamp(group: Group | ConsumerGroup, committed: Committed) -> int | None:
    """From when on the retention counts; None while positions may not expire."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return committed.commit_timestamp
    if group.is_in(GroupState.EMPTY):
        return committed.commit_timestamp if group.state_timestamp == NO_TIME else group.state_timestamp
    if group.protocol_type == CONSUMER and group.subscribed_topics is not None and group.is_in(GroupState.STABLE):
        return committed.commit_timestamp
    return None
