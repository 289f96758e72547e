"""SaslAuthenticate (key 36): the bytes of a SASL exchange."""

from tidelog.wire.message import api, binary, int16, int64, string


@api(36)
class SaslAuthenticateRequest:
    auth_bytes: bytes = binary()


@api(36)
class SaslAuthenticateResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = binary()
    session_lifetime_ms: int = int64("1+")
