"""Membership in a classic group.

- JoinGroup (key 11): becoming a member of a classic group.
- SyncGroup (key 14): handing out the assignment of a classic group.
- Heartbeat (key 12): staying a member of a classic group.
- LeaveGroup (key 13): leaving a classic group.
"""

from tidelog.wire.message import api, array, binary, boolean, int16, int32, message, string


@message
class JoinGroupRequestProtocol:
    name: str = string()
    metadata: bytes = binary()


@api(11)
class JoinGroupRequest:
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("5+", default=None, nullable="0+")
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", default=None, nullable="0+")


@message
class JoinGroupResponseMember:
    member_id: str = string()
    group_instance_id: str | None = string("5+", default=None, nullable="0+")
    metadata: bytes = binary()


@api(11)
class JoinGroupResponse:
    throttle_time_ms: int = int32("2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", default=None, nullable="0+")
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)


@message
class SyncGroupRequestAssignment:
    member_id: str = string()
    assignment: bytes = binary()


@api(14)
class SyncGroupRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", default=None, nullable="0+")
    protocol_type: str | None = string("5+", default=None, nullable="0+")
    protocol_name: str | None = string("5+", default=None, nullable="0+")
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@api(14)
class SyncGroupResponse:
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    protocol_type: str | None = string("5+", default=None, nullable="0+")
    protocol_name: str | None = string("5+", default=None, nullable="0+")
    assignment: bytes = binary()


@api(12)
class HeartbeatRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", default=None, nullable="0+")


@api(12)
class HeartbeatResponse:
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()


@message
class MemberIdentity:
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", default=None, nullable="0+")
    reason: str | None = string("5+", default=None, nullable="0+")


@api(13)
class LeaveGroupRequest:
    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


@message
class MemberResponse:
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="0+")
    error_code: int = int16("3+")


@api(13)
class LeaveGroupResponse:
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")
