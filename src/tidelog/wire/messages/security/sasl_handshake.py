"""SaslHandshake (key 17): choosing a SASL mechanism."""

from tidelog.wire.message import api, array, int16, string


@api(17)
class SaslHandshakeRequest:
    mechanism: str = string()


@api(17)
class SaslHandshakeResponse:
    error_code: int = int16()
    mechanisms: list[str] = array(string)
