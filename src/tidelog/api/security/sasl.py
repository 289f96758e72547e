"""SaslHandshake (17) and SaslAuthenticate (36): `node/security/authentication.py` answers, one for each connection.

On a listener without SASL both are refused with ILLEGAL_SASL_STATE, as by Kafka.
"""

from tidelog.api.context import Context
from tidelog.effects import Deferred
from tidelog.errors import ErrorCode
from tidelog.wire.messages.security.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


def handshake(request: SaslHandshakeRequest, context: Context) -> SaslHandshakeResponse:
    if context.authentication is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    return context.authentication.handshake(request, context)


def authenticate(request: SaslAuthenticateRequest, context: Context) -> SaslAuthenticateResponse | Deferred:
    if context.authentication is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    return context.authentication.authenticate(request, context)
