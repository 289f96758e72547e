"""A rebalance from its start to the next generation, including SyncGroup.

    prepare ──▶ members join ──▶ complete_join ──▶ members sync ──▶ the leader's assignment is committed

The first rebalance of an empty group waits for the initial delay, and again for every member that joined in the
meantime, up to the members' rebalance timeout. Every other rebalance waits until all members joined, or for that
timeout.

The leader sends the assignment, the other members wait for theirs. They get it only when its record is committed: a
failover therefore finds every generation that any member worked with.
"""

from functools import partial

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.classic.group import (
    ClassicGroup,
    ClassicGroupState,
    join_response,
    sync_error,
    sync_response,
)
from tidelog.coordinator.group.machine import GroupMachine, join_key, sync_key
from tidelog.coordinator.group.records import group_change
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.groups.classic_group import SyncGroupRequest, SyncGroupResponse


def prepare_or_complete(machine: GroupMachine, group: ClassicGroup, reason: str) -> Result:
    """The members changed: start a rebalance, or continue the one in progress."""
    if group.can_rebalance:
        return prepare(machine, group, reason)
    return maybe_complete_join(machine, group)


def prepare(machine: GroupMachine, group: ClassicGroup, reason: str) -> Result:
    if group.is_in(ClassicGroupState.COMPLETING_REBALANCE):
        reset_assignments(machine, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    machine.shard.cancel_timer(sync_key(group.group_id))
    is_initial = group.is_in(ClassicGroupState.EMPTY)
    group.transition(ClassicGroupState.PREPARING_REBALANCE, machine.wall)
    machine.shard.event("group.rebalance", group=group.group_id, generation=group.generation, reason=reason)
    if is_initial:
        delay_ms = machine.config.group_initial_rebalance_delay_ms
        _delay_initial_rebalance(machine, group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        return Result()
    if group.all_joined:
        return complete_join(machine, group)
    _wait_for_members(machine, group)
    return Result()


def reset_assignments(machine: GroupMachine, group: ClassicGroup, code: ErrorCode) -> None:
    """The generation failed: answer the members that wait for an assignment with the code."""
    group.assign({})
    for member in group.members.values():
        if machine.reply_sync(member, sync_error(code)):
            machine.renew_session(group, member.member_id, member.session_timeout_ms)


def maybe_complete_join(machine: GroupMachine, group: ClassicGroup) -> Result:
    """Complete the join phase if no member is missing; a first rebalance is completed only by its delay."""
    is_first = group.previous_state == ClassicGroupState.EMPTY
    if group.is_in(ClassicGroupState.PREPARING_REBALANCE) and not is_first and group.all_joined:
        return complete_join(machine, group)
    return Result()


def _wait_for_members(machine: GroupMachine, group: ClassicGroup) -> None:
    machine.shard.set_timer(
        join_key(group.group_id), group.rebalance_timeout_ms, partial(_join_timed_out, machine, group)
    )


def _join_timed_out(machine: GroupMachine, group: ClassicGroup) -> Result:
    return complete_join(machine, group)


def _delay_initial_rebalance(machine: GroupMachine, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
    machine.shard.set_timer(
        join_key(group.group_id), delay_ms, partial(_initial_delay_expired, machine, group, delay_ms, remaining_ms)
    )


def _initial_delay_expired(machine: GroupMachine, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> Result:
    if not group.new_member_added or remaining_ms == 0:
        return complete_join(machine, group)
    group.new_member_added = False
    longer_ms = min(machine.config.group_initial_rebalance_delay_ms, remaining_ms)
    _delay_initial_rebalance(machine, group, longer_ms, max(remaining_ms - delay_ms, 0))
    return Result()


def complete_join(machine: GroupMachine, group: ClassicGroup) -> Result:
    """Continue with the members that joined; static members stay in the group until their session ends."""
    machine.shard.cancel_timer(join_key(group.group_id))
    _remove_unjoined(machine, group)
    if group.members and not group.elect_joined_leader():
        _wait_for_members(machine, group)
        return Result()
    group.next_generation(machine.wall)
    machine.shard.event(
        "group.generation", group=group.group_id, generation=group.generation, members=len(group.members)
    )
    if not group.members:
        return Result(changes=[group_change(group, {})])
    _answer_joins(machine, group)
    return Result()


def _remove_unjoined(machine: GroupMachine, group: ClassicGroup) -> None:
    absent = [m.member_id for m in group.members.values() if m.join_token is None and not m.is_static]
    for member_id in absent:
        group.remove(member_id)
        machine.cancel_session(group, member_id)


def _answer_joins(machine: GroupMachine, group: ClassicGroup) -> None:
    """Answer every member with the new generation, and wait until each has requested its assignment."""
    for member in group.members.values():
        response = join_response(group, member.member_id, with_members=member.member_id == group.leader)
        machine.reply_join(member, response)
        machine.renew_session(group, member.member_id, member.session_timeout_ms)
        member.is_new = False
        group.pending_sync[member.member_id] = None
    machine.shard.set_timer(
        sync_key(group.group_id), group.rebalance_timeout_ms, partial(_sync_timed_out, machine, group, group.generation)
    )


def _sync_timed_out(machine: GroupMachine, group: ClassicGroup, generation: int) -> Result:
    """Members that did not request their assignment are removed from the group."""
    is_over = generation != group.generation or not group.pending_sync
    if is_over or not group.is_in(ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
        return Result()
    silent = list(group.pending_sync)
    for member_id in silent:
        group.remove(member_id)
        machine.cancel_session(group, member_id)
    return prepare(machine, group, f"{silent} did not sync in time")


def sync(machine: GroupMachine, request: SyncGroupRequest, token: int) -> Result:
    """Answer at once, or keep the request waiting. Raises ApiError with the code for the member."""
    group = _checked_group(machine, request)
    if group.is_in(ClassicGroupState.PREPARING_REBALANCE):
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    _remove_pending_sync(machine, group, request.member_id)
    member = group.members[request.member_id]
    if group.is_in(ClassicGroupState.STABLE):
        machine.shard.reply(token, sync_response(group, member))
        return Result()
    machine.reply_sync(member, _superseded())
    member.sync_token = token
    if group.leader != member.member_id or group.storing_generation == group.generation:
        return Result()
    group.storing_generation = group.generation
    assignments = {given.member_id: given.assignment for given in request.assignments}
    assignments = {member_id: assignments.get(member_id, b"") for member_id in group.members}
    return Result(
        changes=[group_change(group, assignments)],
        on_done=partial(_assignment_written, machine, group, group.generation, assignments),
    )


def _superseded() -> SyncGroupResponse:
    """The member sent another request; only the newest one is kept."""
    return sync_error(ErrorCode.REBALANCE_IN_PROGRESS)


def _checked_group(machine: GroupMachine, request: SyncGroupRequest) -> ClassicGroup:
    group = machine.groups.get(request.group_id)
    if group is None or group.is_in(ClassicGroupState.EMPTY):
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    if _mismatch(request.protocol_type, group.protocol_type) or _mismatch(request.protocol_name, group.protocol):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return group


def _mismatch(requested: str | None, actual: str | None) -> bool:
    return requested is not None and actual is not None and requested != actual


def _remove_pending_sync(machine: GroupMachine, group: ClassicGroup, member_id: str) -> None:
    group.pending_sync.pop(member_id, None)
    if not group.pending_sync:
        machine.shard.cancel_timer(sync_key(group.group_id))


def _assignment_written(
    machine: GroupMachine, group: ClassicGroup, generation: int, assignments: dict[str, bytes], code: ErrorCode
) -> Result:
    """If the group has moved on to another state or generation, nothing is done."""
    if not group.is_in(ClassicGroupState.COMPLETING_REBALANCE) or generation != group.generation:
        return Result()
    if code != ErrorCode.NONE:
        reset_assignments(machine, group, code)
        return prepare_or_complete(machine, group, f"the assignment was not stored: {code.name}")
    group.assign(assignments)
    group.transition(ClassicGroupState.STABLE, machine.wall)
    for member in group.members.values():
        if machine.reply_sync(member, sync_response(group, member)):
            machine.renew_session(group, member.member_id, member.session_timeout_ms)
    return Result()
