"""Heartbeats, which keep a member's session alive and tell it of a rebalance."""

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.state import GroupState
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(machine: GroupMachine, request: HeartbeatRequest) -> Result:
    """ApiError with the code that the member is told."""
    group = machine.groups.get(request.group_id)
    if group is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    member = group.members[request.member_id]
    machine.watch(group, member.member_id, member.session_timeout_ms)
    if group.is_in(GroupState.PREPARING_REBALANCE):
        return Result(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    return Result(HeartbeatResponse())
