"""Logins of a broker at others: requests wait for them, and whatever the other answers, only the channel ends."""

from itertools import pairwise

import pytest

from tidelog.effects import Close, Connect, Event, PeerRequest, Send
from tidelog.model import Endpoint
from tidelog.node.peers import Peers
from tidelog.security.sasl import client_exchange
from tidelog.wire import codec
from tidelog.wire.messages.security.sasl import SaslAuthenticateResponse, SaslHandshakeResponse
from tidelog.wire.messages.topics.topic_changes import CreateTopicsRequest, CreateTopicsResponse

OTHER, TOKEN, OWNER = 1, 5, "forward"


class LoggingIn:
    """A channel to broker 1 that is open, on which nothing is answered yet; one request waits."""

    def __init__(self, mechanism):
        self.effects = []
        self.peers = Peers(
            "broker-0",
            lambda *_: Endpoint("REPLICATION", "SASL_PLAINTEXT", "other", 9094),
            self.effects,
            30_000,
            {"REPLICATION": lambda: (mechanism, client_exchange(mechanism, "brokers", "b secret", "nonce"))},
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


class Sessions(LoggingIn):
    """The same at a given time, on the newest connection."""

    def __init__(self):
        super().__init__("PLAIN")
        self.connection = -1

    def at(self, now, key, version, response, correlation_id=None):
        chosen = self.sent[-1] if correlation_id is None else correlation_id
        frame = b"".join(codec.encode_response(key, version, chosen, response))[4:]
        return list(self.peers.received(self.connection, memoryview(frame), now))

    def log_in(self, now, *, lasts_ms=0, error=0):
        self.at(now, 17, 1, SaslHandshakeResponse(mechanisms=["PLAIN"]))
        self.at(now, 36, 2, SaslAuthenticateResponse(error_code=error, session_lifetime_ms=lasts_ms))

    def ask(self, token, now):
        self.peers.send(PeerRequest(OTHER, CreateTopicsRequest(), OWNER, token), 7, now)

    @property
    def keys(self):
        """The API keys of what was sent since the last look."""
        frames = [b"".join(bytes(part) for part in each.parts) for each in self.effects if isinstance(each, Send)]
        self.effects[:] = [each for each in self.effects if not isinstance(each, Send)]
        return [int.from_bytes(frame[4:6]) for frame in frames]


def test_a_channel_logs_in_again_before_its_session_ends():
    channel = Sessions()
    channel.log_in(0, lasts_ms=1000)
    assert channel.sent[-1] == 3
    channel.ask(6, 849)
    assert channel.keys == [17, 36, 19, 19]
    channel.ask(7, 850)  # the answers to both requests before it are still to come
    channel.ask(8, 860)
    assert channel.keys == [17]
    for correlation_id, token in ((3, TOKEN), (4, 6)):
        ((owner, answered, _),) = channel.at(870, 19, 7, CreateTopicsResponse(), correlation_id)
        assert (owner, answered) == (OWNER, token)
    channel.at(880, 17, 1, SaslHandshakeResponse(mechanisms=["PLAIN"]), 5)
    assert channel.keys == [36]
    channel.at(890, 36, 2, SaslAuthenticateResponse(session_lifetime_ms=1000), 6)
    assert channel.keys == [19, 19]
    channel.ask(9, 890 + 849)
    assert channel.keys == [19]
    channel.ask(10, 890 + 850)
    assert channel.keys == [17]


def test_a_session_without_end_needs_no_second_login():
    channel = Sessions()
    channel.log_in(0)
    channel.ask(6, 10**12)
    assert channel.keys == [17, 36, 19, 19]


def test_a_refused_second_login_answers_all_that_waits():
    channel = Sessions()
    channel.log_in(0, lasts_ms=1000)
    channel.ask(6, 900)
    channel.at(900, 19, 7, CreateTopicsResponse(), 3)
    channel.ask(7, 901)
    channel.at(910, 17, 1, SaslHandshakeResponse(error_code=34), 4)
    assert [(each.token, each.response) for each in channel.peers.answers] == [(6, None), (7, None)]
    assert channel.peers.next_deadline is None


def test_after_failed_logins_a_broker_waits_longer_and_says_so_seldom():
    channel = Sessions()
    now, waits, reports = 0, [], []
    for number in range(30):
        channel.log_in(now, error=58)
        channel.peers.answers.clear()
        reports += [now for each in channel.effects if isinstance(each, Event)]
        failed_at, channel.effects[:] = now, []
        while not any(isinstance(each, Connect) for each in channel.effects):
            assert [each.response for each in channel.peers.answers] == [None] * len(channel.peers.answers)
            now += 50
            channel.ask(100 + number, now)
        waits.append(now - failed_at)
        channel.connection -= 1
        channel.peers.connected(channel.connection, now)
    assert waits[:9] == [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
    assert set(waits[7:]) == {10_000}
    assert reports == [moment for moment in reports if moment == 0 or moment >= 60_000]
    assert len(reports) == 1 + (now - waits[-1]) // 60_000
    assert all(later - sooner >= 60_000 for sooner, later in pairwise(reports))


def test_a_login_that_succeeds_ends_the_waiting():
    channel = Sessions()
    for now in (0, 100):
        channel.log_in(now, error=58)
        channel.ask(6, now + 200)
        channel.connection -= 1
        channel.peers.connected(channel.connection, now + 200)
        channel.effects[:] = [each for each in channel.effects if not isinstance(each, Send | Event)] + [
            each for each in channel.effects if isinstance(each, Send)
        ][-1:]
    channel.log_in(400)
    channel.peers.close(channel.connection, "over")
    channel.effects.clear()
    channel.ask(7, 401)
    assert [type(each) for each in channel.effects] == [Connect]


def test_a_broker_that_moved_is_not_waited_for():
    channel = Sessions()
    channel.log_in(0, error=58)
    channel.ask(6, 1)
    assert not any(isinstance(each, Connect) for each in channel.effects[1:])
    channel.peers.drop(OTHER)
    channel.effects.clear()
    channel.ask(7, 2)
    assert [type(each) for each in channel.effects] == [Connect]
