"""The sessions of members: renewed by Heartbeat; ended by LeaveGroup, by an operator (KIP-345), or by a timeout."""

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.classic import rebalance
from tidelog.coordinator.group.classic.group import (
    UNKNOWN_MEMBER,
    ClassicGroup,
    ClassicGroupState,
    join_error,
    sync_error,
)
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.groups.classic_group import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)


def heartbeat(machine: GroupMachine, request: HeartbeatRequest) -> Result:
    """Raises ApiError with the code for the member."""
    group = machine.groups.get(request.group_id)
    if group is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    member = group.members[request.member_id]
    machine.renew_session(group, member.member_id, member.session_timeout_ms)
    if group.is_in(ClassicGroupState.PREPARING_REBALANCE):
        return Result(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    return Result(HeartbeatResponse())


def leave(machine: GroupMachine, request: LeaveGroupRequest) -> Result:
    """Every member gets its own result; all members that left start one rebalance together."""
    group = machine.groups.get(request.group_id)
    if group is None:
        return Result(
            LeaveGroupResponse(
                members=[_member_response(identity, ErrorCode.UNKNOWN_MEMBER_ID) for identity in request.members]
            )
        )
    answers = [_member_response(identity, _remove_leaving(machine, group, identity)) for identity in request.members]
    result = Result()
    if any(answer.error_code == ErrorCode.NONE for answer in answers):
        result = _rebalance_after_leave(machine, group)
    result.response = LeaveGroupResponse(members=answers)
    return result


def _member_response(identity: MemberIdentity, code: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)


def _remove_leaving(machine: GroupMachine, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
    """An operator names only the instance, without a member ID."""
    member_id = identity.member_id
    if member_id == UNKNOWN_MEMBER:
        member_id = group.static_members.get(identity.group_instance_id or "", UNKNOWN_MEMBER)
        if identity.group_instance_id is None or member_id == UNKNOWN_MEMBER:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id not in group.pending_members:
        try:
            group.check_member(member_id, identity.group_instance_id)
        except ApiError as error:
            return error.code
    remove_member(machine, group, member_id)
    return ErrorCode.NONE


def remove_member(machine: GroupMachine, group: ClassicGroup, member_id: str) -> None:
    """Answer the waiting requests of the member, if there are any, so that it joins again."""
    member = group.members.get(member_id)
    if member is not None:
        machine.reply_join(member, join_error(UNKNOWN_MEMBER, ErrorCode.UNKNOWN_MEMBER_ID))
        machine.reply_sync(member, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    machine.cancel_session(group, member_id)
    group.remove(member_id)


def _rebalance_after_leave(machine: GroupMachine, group: ClassicGroup) -> Result:
    if group.is_in(ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
        return rebalance.prepare(machine, group, "members left")
    return rebalance.maybe_complete_join(machine, group)


def expire_member(machine: GroupMachine, group: ClassicGroup, member_id: str) -> Result:
    """The session of a member, or of an ID that was not used to join, is over."""
    member = group.members.get(member_id)
    if member_id in group.pending_members:
        group.remove(member_id)
        return _complete_join_if_all_joined(machine, group)
    if member is None or not member.can_expire:
        return Result()
    machine.shard.event("group.member_expired", group=group.group_id, member=member_id)
    remove_member(machine, group, member_id)
    if group.is_in(ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
        return rebalance.prepare(machine, group, f"the session of {member_id} is over")
    return _complete_join_if_all_joined(machine, group)


def _complete_join_if_all_joined(machine: GroupMachine, group: ClassicGroup) -> Result:
    if group.is_in(ClassicGroupState.PREPARING_REBALANCE) and group.all_joined:
        return rebalance.complete_join(machine, group)
    return Result()
