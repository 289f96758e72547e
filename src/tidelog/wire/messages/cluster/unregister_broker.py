"""UnregisterBroker (key 64): forgetting a broker."""

from tidelog.wire.message import api, int16, int32, string


@api(64)
class UnregisterBrokerRequest:
    broker_id: int = int32()


@api(64)
class UnregisterBrokerResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
