"""The consumer group that a request is for: one that is there, a new one, or what a classic one becomes."""

from tidelog.coordinator.group.consumer import sessions
from tidelog.coordinator.group.consumer.draft import Draft
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.mixed.conversion import check_upgrade, upgrade
from tidelog.coordinator.group.group import Group
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.membership.responses import join_error, sync_error
from tidelog.coordinator.group.records import group_tombstone
from tidelog.coordinator.group.state import GroupState
from tidelog.errors import ApiError, ErrorCode


def open_group(machine: GroupMachine, group_id: str, *, create: bool) -> Draft:
    """ApiError GROUP_ID_NOT_FOUND."""
    group = machine.consumers.newest.get(group_id)
    if group is not None:
        return Draft(group)
    classic = machine.groups.get(group_id)
    if not create:
        problem = f"Consumer group {group_id} not found." if classic is None else _not_ours(group_id)
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, problem)
    if classic is None:
        return Draft(ConsumerGroup(group_id))
    if classic.is_in(GroupState.EMPTY):
        return Draft(ConsumerGroup(group_id), [group_tombstone(group_id)])
    check_upgrade(machine, classic)
    return _upgraded(machine, classic)


def _not_ours(group_id: str) -> str:
    return f"Group {group_id} is not a consumer group."


def _upgraded(machine: GroupMachine, classic: Group) -> Draft:
    """Whoever waits for the classic group's rebalance is told to join anew: it will be a member of the new one."""
    draft = Draft(ConsumerGroup(classic.group_id), upgrade(machine, classic))
    for member in classic.members.values():
        machine.reply_join(member, join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
        machine.reply_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    for member_id in draft.group.members:
        sessions.watch(machine, classic.group_id, draft.group.members[member_id])
    machine.shard.event("group.upgraded", group=classic.group_id, members=len(classic.members))
    return draft
