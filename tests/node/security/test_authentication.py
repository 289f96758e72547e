"""How long a login lasts: by the listener's option, by the end of what the client has shown, whichever comes first."""

import pytest

from tests.api.fake_context import context
from tidelog.config.broker import BrokerConfig
from tidelog.effects import Close
from tidelog.errors import ErrorCode
from tidelog.model import Time
from tidelog.node.security.authentication import Authentication
from tidelog.security import scram
from tidelog.security.sasl import SaslListener, client_exchange
from tidelog.wire.codec import encode_request
from tidelog.wire.messages.security.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tidelog.wire.messages.topics.metadata import MetadataRequest

MECHANISM = "SCRAM-SHA-256"
KEPT = scram.credential(scram.MECHANISMS[MECHANISM], b"salted", b"salt", 4096)
METADATA = memoryview(b"".join(encode_request(3, 9, 1, "c", MetadataRequest()))[4:])


class LoggingIn:
    """A connection whose client logs in at the wall clock's 1,000,000 ms and the monotonic 500 ms."""

    def __init__(self, monkeypatch, account, max_reauth_ms=0):
        monkeypatch.setattr(scram, "salted", lambda *_: b"salted")
        options = {"sasl.enabled.mechanisms": MECHANISM, "connections.max.reauth.ms": str(max_reauth_ms)}
        listener = SaslListener(BrokerConfig(options), lambda *_: account, bytes)
        self.effects = []
        self.authentication = Authentication(1, "peer", listener, self.effects, 1000)
        self.context = context()
        self.context.now = Time(500, 1_000_000)

    def log_in(self):
        """The last answer."""
        shaken = self.authentication.handshake(SaslHandshakeRequest(mechanism=MECHANISM), self.context)
        if shaken.error_code:
            return shaken
        exchange = client_exchange(MECHANISM, "id-1", "x", "nonce", by_token=True)
        token = next(exchange)
        for _ in range(2):
            answer = self.authentication.authenticate(SaslAuthenticateRequest(auth_bytes=token), self.context)
            try:
                token = exchange.send(bytes(answer.auth_bytes))
            except StopIteration:
                return answer
        raise AssertionError("the exchange goes on")

    def admits(self, mono):
        return self.authentication.admits(METADATA, Time(mono, 0))


@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_at", "lifetime"),
    [(0, None, 0), (700, None, 700), (0, 1_000_300, 300), (700, 1_000_300, 300), (200, 1_000_300, 200)],
)
def test_a_session_ends_with_its_token_or_by_the_listeners_option(monkeypatch, max_reauth_ms, expires_at, lifetime):
    client = LoggingIn(monkeypatch, scram.Account("alice", KEPT, expires_at), max_reauth_ms)
    assert client.log_in().session_lifetime_ms == lifetime
    assert client.authentication.principal == "User:alice"
    end = 500 + (lifetime or 1_000_000)
    assert client.admits(end - 1)
    assert client.admits(end) == (lifetime == 0)
    assert bool([each for each in client.effects if isinstance(each, Close)]) == (lifetime > 0)


def test_a_client_with_a_token_may_authenticate_again_and_others_only_where_they_must(monkeypatch):
    client = LoggingIn(monkeypatch, scram.Account("alice", KEPT, 1_000_300, by_token=True))
    assert client.log_in().session_lifetime_ms == 300
    assert client.authentication.by_token
    client.context.now = Time(700, 1_000_200)
    assert client.log_in().session_lifetime_ms == 100
    forever = LoggingIn(monkeypatch, scram.Account("alice", KEPT))
    assert forever.log_in().error_code == 0
    assert not forever.authentication.by_token
    assert forever.log_in().error_code == ErrorCode.ILLEGAL_SASL_STATE
