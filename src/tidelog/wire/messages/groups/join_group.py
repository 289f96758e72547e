"""JoinGroup (key 11): becoming a member of a classic group."""

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
