"""Heartbeat (key 12): staying a member of a classic group."""

from tidelog.wire.message import api, int16, int32, string


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
