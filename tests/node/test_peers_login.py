"""Logins of a broker at others: requests wait for them, and whatever the other answers, only the channel ends."""

import pytest

from tidelog.effects import Close, Event, PeerRequest, Send
from tidelog.model import Endpoint
from tidelog.node.peers import Peers
from tidelog.security.sasl import client_exchange
from tidelog.wire import codec
from tidelog.wire.messages.security.sasl import SaslAuthenticateResponse, SaslHandshakeResponse
from tidelog.wire.messages.topics.create_topics import CreateTopicsRequest

OTHER, TOKEN, OWNER = 1, 5, "forward"


class LoggingIn:
    """A channel to broker 1 that is open, on which nothing is answered yet; one request waits."""

    def __init__(self, mechanism):
        self.effects = []
        self.peers = Peers(
            "broker-0",
            lambda _: Endpoint("REPLICATION", "SASL_PLAINTEXT", "other", 9094),
            self.effects,
            30_000,
            lambda: (mechanism, client_exchange(mechanism, "brokers", "b secret", "nonce")),
        )
        self.peers.send(PeerRequest(OTHER, CreateTopicsRequest(), OWNER, TOKEN), 7, 0)
        self.peers.connected(-1, 0)

    def answer(self, key, version, response):
        frame = b"".join(codec.encode_response(key, version, self.sent[-1], response))[4:]
        return list(self.peers.received(-1, memoryview(frame), 1))

    @property
    def sent(self):
        """The correlation ids of what was sent."""
        frames = [b"".join(bytes(part) for part in each.parts) for each in self.effects if isinstance(each, Send)]
        return [int.from_bytes(frame[8:12]) for frame in frames]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize(
    "answer",
    [
        SaslAuthenticateResponse(error_code=58, error_message=None),
        SaslAuthenticateResponse(error_code=58, error_message="no"),
        SaslAuthenticateResponse(error_code=12_345, error_message="not a code of Kafka's"),
    ],
)
def test_a_refused_login_ends_the_channel_and_its_requests_are_answered(mechanism, answer):
    channel = LoggingIn(mechanism)
    assert channel.answer(17, 1, SaslHandshakeResponse(mechanisms=[mechanism])) == []
    assert channel.answer(36, 2, answer) == []
    assert [each.kind for each in channel.effects if isinstance(each, Event)] == ["peer.login_failed"]
    assert any(isinstance(each, Close) for each in channel.effects)
    assert [(each.owner, each.token, each.response) for each in channel.peers.answers] == [(OWNER, TOKEN, None)]


def test_nothing_is_sent_to_a_broker_that_does_not_prove_itself():
    channel = LoggingIn("SCRAM-SHA-512")
    channel.answer(17, 1, SaslHandshakeResponse(mechanisms=["SCRAM-SHA-512"]))
    channel.answer(36, 2, SaslAuthenticateResponse(auth_bytes=b"r=noncetheirs,s=AAAA,i=4096"))
    channel.answer(36, 2, SaslAuthenticateResponse(auth_bytes=b""))
    assert len(channel.sent) == 3, "handshake and two tokens, not the request"
    assert [each.response for each in channel.peers.answers] == [None]


def test_a_connection_that_breaks_within_a_login_answers_what_waits():
    channel = LoggingIn("PLAIN")
    channel.peers.lost(-1)
    assert [(each.token, each.response) for each in channel.peers.answers] == [(TOKEN, None)]
    assert channel.peers.next_deadline is None
