"""SyncGroup: the leader hands in the assignment, the others wait for theirs.

The assignment is told to members only when the record that holds it is committed: so a generation that anybody worked
with is one that a failover finds again.
"""

from functools import partial

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.group import Group
from tidelog.coordinator.group.machine import GroupMachine, sync_key
from tidelog.coordinator.group.membership import rebalance
from tidelog.coordinator.group.membership.responses import assigned, sync_error
from tidelog.coordinator.group.records import group_change
from tidelog.coordinator.group.state import GroupState
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(machine: GroupMachine, request: SyncGroupRequest, token: int) -> Result:
    """Answer at once, or hold the answer back while the member waits. ApiError with what the member is told."""
    group = _checked_group(machine, request)
    if group.is_in(GroupState.PREPARING_REBALANCE):
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    _note_sync(machine, group, request.member_id)
    member = group.members[request.member_id]
    if group.is_in(GroupState.STABLE):
        machine.shard.reply(token, assigned(group, member))
        return Result()
    machine.reply_sync(member, _superseded())
    member.syncing = token
    if group.leader != member.member_id or group.storing == group.generation:
        return Result()
    group.storing = group.generation
    assignments = {given.member_id: given.assignment for given in request.assignments}
    assignments = {member_id: assignments.get(member_id, b"") for member_id in group.members}
    return Result(
        changes=[group_change(group, assignments)],
        settled=partial(_written, machine, group, group.generation, assignments),
    )


def _superseded() -> SyncGroupResponse:
    """A request that its own member sent again: only the newest can be remembered."""
    return sync_error(ErrorCode.REBALANCE_IN_PROGRESS)


def _checked_group(machine: GroupMachine, request: SyncGroupRequest) -> Group:
    group = machine.groups.get(request.group_id)
    if group is None or group.is_in(GroupState.EMPTY):
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return group


def _differs(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual


def _note_sync(machine: GroupMachine, group: Group, member_id: str) -> None:
    group.unsynced.pop(member_id, None)
    if not group.unsynced:
        machine.shard.cancel_timer(sync_key(group.group_id))


def _written(
    machine: GroupMachine, group: Group, generation: int, assignments: dict[str, bytes], code: ErrorCode
) -> Result:
    """Whatever the group has become meanwhile, it is another one's business."""
    if not group.is_in(GroupState.COMPLETING_REBALANCE) or generation != group.generation:
        return Result()
    if code != ErrorCode.NONE:
        rebalance.reset_assignments(machine, group, code)
        return rebalance.prepare_or_complete(machine, group, f"the assignment was not stored: {code.name}")
    group.assign(assignments)
    group.transition(GroupState.STABLE, machine.wall)
    for member in group.members.values():
        if machine.reply_sync(member, assigned(group, member)):
            machine.watch(group, member.member_id, member.session_timeout_ms)
    return Result()
