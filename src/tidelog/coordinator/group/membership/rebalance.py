"""A rebalance from its beginning to the next generation.

    prepare ──▶ members join ──▶ complete_join ──▶ members sync ──▶ the leader's assignment is committed (sync.py)

The first rebalance of an empty group waits for the initial delay, and again for every member that came meanwhile, up
to the members' rebalance timeout; every other one waits until all members joined, or for that timeout.
"""

from functools import partial

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.group import Group
from tidelog.coordinator.group.machine import GroupMachine, join_key, sync_key
from tidelog.coordinator.group.membership.responses import joined, sync_error
from tidelog.coordinator.group.records import group_change
from tidelog.coordinator.group.state import GroupState
from tidelog.errors import ErrorCode


def prepare_or_complete(machine: GroupMachine, group: Group, reason: str) -> Result:
    """Something about the members changed: begin a rebalance, or go on with the one under way."""
    if group.can_rebalance:
        return prepare(machine, group, reason)
    return maybe_complete_join(machine, group)


def prepare(machine: GroupMachine, group: Group, reason: str) -> Result:
    if group.is_in(GroupState.COMPLETING_REBALANCE):
        reset_assignments(machine, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.unsynced.clear()
    machine.shard.cancel_timer(sync_key(group.group_id))
    is_initial = group.is_in(GroupState.EMPTY)
    group.transition(GroupState.PREPARING_REBALANCE, machine.wall)
    machine.shard.event("group.rebalance", group=group.group_id, generation=group.generation, reason=reason)
    if is_initial:
        delay_ms = machine.config.group_initial_rebalance_delay_ms
        _delay_first(machine, group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        return Result()
    if group.all_joined:
        return complete_join(machine, group)
    _wait_for_members(machine, group)
    return Result()


def reset_assignments(machine: GroupMachine, group: Group, code: ErrorCode) -> None:
    """The generation came to nothing: who waits for an assignment is told so."""
    group.assign({})
    for member in group.members.values():
        if machine.reply_sync(member, sync_error(code)):
            machine.watch(group, member.member_id, member.session_timeout_ms)


def maybe_complete_join(machine: GroupMachine, group: Group) -> Result:
    """Complete the join phase if nobody is missing; a first rebalance is completed by its delay alone."""
    is_first = group.previous_state == GroupState.EMPTY
    if group.is_in(GroupState.PREPARING_REBALANCE) and not is_first and group.all_joined:
        return complete_join(machine, group)
    return Result()


def _wait_for_members(machine: GroupMachine, group: Group) -> None:
    machine.shard.set_timer(
        join_key(group.group_id), group.rebalance_timeout_ms, partial(_join_timed_out, machine, group)
    )


def _join_timed_out(machine: GroupMachine, group: Group) -> Result:
    return complete_join(machine, group)


def _delay_first(machine: GroupMachine, group: Group, delay_ms: int, remaining_ms: int) -> None:
    machine.shard.set_timer(
        join_key(group.group_id), delay_ms, partial(_first_delay_over, machine, group, delay_ms, remaining_ms)
    )


def _first_delay_over(machine: GroupMachine, group: Group, delay_ms: int, remaining_ms: int) -> Result:
    if not group.new_member_added or remaining_ms == 0:
        return complete_join(machine, group)
    group.new_member_added = False
    longer_ms = min(machine.config.group_initial_rebalance_delay_ms, remaining_ms)
    _delay_first(machine, group, longer_ms, max(remaining_ms - delay_ms, 0))
    return Result()


def complete_join(machine: GroupMachine, group: Group) -> Result:
    """Go on with the members that joined; static members keep their place for as long as their session lasts."""
    machine.shard.cancel_timer(join_key(group.group_id))
    _remove_absent(machine, group)
    if group.members and not group.elect_joined_leader():
        _wait_for_members(machine, group)
        return Result()
    group.next_generation(machine.wall)
    machine.shard.event(
        "group.generation", group=group.group_id, generation=group.generation, members=len(group.members)
    )
    if not group.members:
        return Result(changes=[group_change(group, {})])
    _announce(machine, group)
    return Result()


def _remove_absent(machine: GroupMachine, group: Group) -> None:
    absent = [m.member_id for m in group.members.values() if m.joining is None and not m.is_static]
    for member_id in absent:
        group.remove(member_id)
        machine.unwatch(group, member_id)


def _announce(machine: GroupMachine, group: Group) -> None:
    """Tell every member of the new generation, and wait until each has asked for its assignment."""
    for member in group.members.values():
        response = joined(group, member.member_id, with_members=member.member_id == group.leader)
        machine.reply_join(member, response)
        machine.watch(group, member.member_id, member.session_timeout_ms)
        member.is_new = False
        group.unsynced[member.member_id] = None
    machine.shard.set_timer(
        sync_key(group.group_id), group.rebalance_timeout_ms, partial(_sync_timed_out, machine, group, group.generation)
    )


def _sync_timed_out(machine: GroupMachine, group: Group, generation: int) -> Result:
    """Members that never asked for their assignment leave the group."""
    is_over = generation != group.generation or not group.unsynced
    if is_over or not group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return Result()
    silent = list(group.unsynced)
    for member_id in silent:
        group.remove(member_id)
        machine.unwatch(group, member_id)
    return prepare(machine, group, f"{silent} did not sync in time")
