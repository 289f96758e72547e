"""SyncGroup (key 14): handing out the assignment of a classic group."""

from tidelog.wire.message import api, array, binary, int16, int32, message, string


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
