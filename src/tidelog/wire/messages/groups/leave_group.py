"""LeaveGroup (key 13): leaving a classic group."""

from tidelog.wire.message import api, array, int16, int32, message, string


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
