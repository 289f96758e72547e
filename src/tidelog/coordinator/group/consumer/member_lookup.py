"""The member that a request comes from: a known one, a new one, or a returning static member."""

from collections.abc import Iterable

from tidelog.coordinator.group.consumer.group import NO_PARTITIONS, ConsumerGroup, Draft
from tidelog.coordinator.group.consumer.member import JOIN_EPOCH, LEAVE_STATIC_EPOCH, ConsumerMember
from tidelog.coordinator.group.consumer.records import (
    current_change,
    member_change,
    member_tombstones,
    target_change,
)
from tidelog.coordinator.group.consumer.topics import AssignmentEpochs, TopicIdPartition
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.errors import ApiError, ErrorCode


def check_room(machine: GroupMachine, group: ConsumerGroup, member_id: str) -> None:
    """Raises ApiError GROUP_MAX_SIZE_REACHED for a member that is not in the group."""
    size = machine.config.group_consumer_max_size
    if len(group.members) >= size and member_id not in group.members:
        text = f"The consumer group has reached its maximum capacity of {size} members."
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """Raises ApiError UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        text = f"Member {member_id} is not a member of group {group.group_id}."
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, text)
    return member


def known_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Raises ApiError UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another process replaced the member."""
    member = group.static_member(instance_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        text = f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        raise ApiError(ErrorCode.FENCED_INSTANCE_ID, text)
    return member


def joining_static_member(draft: Draft, member_id: str, instance_id: str, *, is_classic: bool) -> ConsumerMember:
    """A new member, or one that replaces the owner of the instance ID. Between members of the consumer protocol the
    owner must have left temporarily before; otherwise raises ApiError UNRELEASED_INSTANCE_ID."""
    old = draft.group.static_member(instance_id)
    if old is None:
        return draft.group.members.get(member_id, ConsumerMember(member_id))
    is_released = old.current.epoch == LEAVE_STATIC_EPOCH
    if not (is_classic or old.is_classic or is_released):
        text = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id"
            f" is owned by {old.member_id} member."
        )
        raise ApiError(ErrorCode.UNRELEASED_INSTANCE_ID, text)
    return _replace_static_member(draft, old, member_id)


def _replace_static_member(draft: Draft, old: ConsumerMember, member_id: str) -> ConsumerMember:
    """The new member gets the assignment of the old one, and starts at epoch 0."""
    group_id = draft.group.group_id
    target = draft.group.targets.get(old.member_id, NO_PARTITIONS)
    current = old.current._replace(epoch=0, previous_epoch=0)
    draft.add(
        *member_tombstones(group_id, old.member_id),
        member_change(group_id, member_id, old.subscription),
        target_change(group_id, member_id, target),
        current_change(group_id, member_id, current),
    )
    return draft.group.members[member_id]


def check_epoch(member: ConsumerMember, epoch: int, owned: frozenset[TopicIdPartition] | None) -> None:
    """Raises ApiError FENCED_MEMBER_EPOCH unless the member joins, or sends its present epoch. The previous epoch is
    also accepted, because the response that raised it may have been lost; the member must then own nothing outside its
    assignment."""
    known = member.current.epoch
    if epoch in (JOIN_EPOCH, known):
        return
    if epoch < known and epoch == member.current.previous_epoch and _is_subset(owned, member.current.assigned):
        return
    compared = "greater" if epoch > known else "smaller"
    text = (
        f"The consumer group member has a {compared} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({known}). The member must abandon all its partitions and rejoin."
    )
    raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, text)


def _is_subset(owned: Iterable[TopicIdPartition] | None, assigned: AssignmentEpochs) -> bool:
    return owned is not None and all(partition in assigned for partition in owned)
