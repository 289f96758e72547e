"""SaslHandshake (key 17) chooses a SASL mechanism; SaslAuthenticate (36) carries the bytes of its exchange."""

from tidelog.wire.message import api, array, binary, int16, int64, string


@api(17)
class SaslHandshakeRequest:
    mechanism: str = string()


@api(17)
class SaslHandshakeResponse:
    error_code: int = int16()
    mechanisms: list[str] = array(string)


@api(36)
class SaslAuthenticateRequest:
    auth_bytes: bytes = binary()


@api(36)
class SaslAuthenticateResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = binary()
    session_lifetime_ms: int = int64("1+")
