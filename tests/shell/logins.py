"""SASL logins over a raw connection (`tests.shell.test_sasl.Wire`)."""

from base64 import b64encode

from tidelog.security.sasl import client_exchange
from tidelog.wire.messages.security.sasl import SaslAuthenticateRequest, SaslHandshakeRequest


def log_in(wire, user, password, mechanism="SCRAM-SHA-512", *, by_token=False):
    """The last answer: of the login, or its refusal."""
    assert wire.ask(17, 1, SaslHandshakeRequest(mechanism=mechanism)).error_code == 0
    exchange = client_exchange(mechanism, user, password, b64encode(bytes(18)).decode(), by_token=by_token)
    token = next(exchange)
    while True:
        answer = wire.ask(36, 2, SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            return answer
        try:
            token = exchange.send(bytes(answer.auth_bytes))
        except StopIteration:
            return answer


def log_in_by_token(wire, made, mechanism="SCRAM-SHA-512"):
    """With the delegation token that CreateDelegationToken answered."""
    return log_in(wire, made.token_id, b64encode(bytes(made.hmac)).decode(), mechanism, by_token=True)
