"""Static members (KIP-345): who comes back under the same instance id takes the place of the process before it, and
where nothing else changed, the group goes on without a rebalance."""

from functools import partial
from typing import NamedTuple

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group import protocols
from tidelog.coordinator.group.group import Group
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.member import Member, Protocol
from tidelog.coordinator.group.membership.responses import UNKNOWN_MEMBER, join_error, joined, sync_error
from tidelog.coordinator.group.records import group_change
from tidelog.coordinator.group.state import GroupState
from tidelog.errors import ErrorCode

SKIP_ASSIGNMENT_VERSION = 9
"""From this version of JoinGroup on a leader that came back can be told not to assign anew (KIP-814)."""


class Before(NamedTuple):
    """What a static member was before a new process took its place, and the id that this one was given."""

    member: Member
    new_id: str
    member_id: str
    leader: str | None
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: list[Protocol]


def replace(machine: GroupMachine, group: Group, member: Member, member_id: str) -> Before:
    """Fence the old process, and give its place to the new one under a new id."""
    before = Before(
        member,
        member_id,
        member.member_id,
        group.leader,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.protocols,
    )
    machine.reply_join(member, join_error(member.member_id, ErrorCode.FENCED_INSTANCE_ID))
    machine.reply_sync(member, sync_error(ErrorCode.FENCED_INSTANCE_ID))
    machine.unwatch(group, member.member_id)
    group.rename_static(member, member_id)
    machine.watch(group, member_id, member.session_timeout_ms)
    return before


def next_protocol(group: Group) -> str | None:
    """What the next generation would choose; None where the members have nothing in common any more."""
    members = group.members.values()
    return protocols.choose(members) if protocols.common(members) else None


def keep_generation(machine: GroupMachine, group: Group, before: Before, version: int) -> Result:
    """The generation goes on; its record names the new id, and the member is answered once that is committed."""
    assignments = {member_id: member.assignment for member_id, member in group.members.items()}
    return Result(
        changes=[group_change(group, assignments)],
        settled=partial(_written, machine, group, before, version),
    )


def _written(machine: GroupMachine, group: Group, before: Before, version: int, code: ErrorCode) -> Result:
    member, member_id = before.member, before.new_id
    if group.members.get(member_id) is not member:
        return Result()
    if code != ErrorCode.NONE:
        if member.joining is not None:
            _revert(machine, group, before, code)
        return Result()
    is_leader = group.leader == member_id
    if version >= SKIP_ASSIGNMENT_VERSION:
        response = joined(group, member_id, with_members=is_leader, skip_assignment=is_leader)
    else:
        # Told of its own new id as the leader's, an old client would assign anew: it is told the id before.
        response = joined(group, member_id, leader=before.leader)
    if not group.is_in(GroupState.PREPARING_REBALANCE):
        machine.reply_join(member, response)
    return Result()


def _revert(machine: GroupMachine, group: Group, before: Before, code: ErrorCode) -> None:
    """The new id did not come into the log, so a failover would know the old one only."""
    member = before.member
    response = joined(group, UNKNOWN_MEMBER, leader=before.leader)
    response.error_code = code
    machine.reply_join(member, response)
    machine.unwatch(group, member.member_id)
    group.rename_static(member, before.member_id)
    member.rebalance_timeout_ms = before.rebalance_timeout_ms
    member.session_timeout_ms = before.session_timeout_ms
    member.protocols = before.protocols
    machine.watch(group, member.member_id, member.session_timeout_ms)
