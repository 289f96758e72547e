"""Requests to other brokers and their answers, and requests that are forwarded to the controller.

A channel is a connection to one broker for one owner (a fetcher, the ISR, the controller, forwarding), so that a slow
answer of one kind never holds up another. An answer that cannot come is handed down as None. A broker sends requests
to itself the same way, without a socket.

Where the listener that a channel leads to has SASL, the channel logs in before it is used, and again before its session
ends (KIP-368): with the first request after `REAUTHENTICATED_AT` of it. After a failed login there is no connection to
that broker for a while, which doubles with each failure.
"""

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.alarms import Alarm
from tidelog.api.context import PENDING, Context, Pending
from tidelog.effects import CONTROLLER, Close, Connect, Effect, Event, PeerRequest, Reply, Send
from tidelog.errors import ApiError
from tidelog.model import Endpoint, Time
from tidelog.wire.codec import decode_response, encode_request
from tidelog.wire.messages.security.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tidelog.wire.refusals import is_from_no_controller

HANDSHAKE, AUTHENTICATE = 17, 36
_LOGINS = (HANDSHAKE, AUTHENTICATE)
REAUTHENTICATED_AT = 0.85
"""The part of a session after which a channel logs in again: Kafka's clients choose one from 0.85 to 0.95."""
LOGIN_BACKOFF_MS, LOGIN_BACKOFF_MAX_MS = 100, 10_000
REPORT_EVERY_MS = 60_000
"""At most so often a log line says that logins to a broker fail."""
_MOST_DOUBLINGS = 7
LOGIN = 0
"""The token of requests that only log in."""

Login = Callable[[], tuple[str, Generator[bytes, bytes, None]]]
"""→ the mechanism, and the exchange: yields what this broker sends, is sent what the other answers."""

VERSIONS = {
    0: 12,
    1: 17,
    4: 7,
    5: 4,
    6: 8,
    7: 3,
    18: 4,
    19: 7,
    23: 4,
    24: 5,
    27: 2,
    52: 2,
    53: 1,
    54: 1,
    56: 3,
    59: 1,
    82: 0,
    10001: 0,
}
"""The versions that brokers use among themselves; forwarded requests keep their own."""


class Sent(NamedTuple):
    correlation_id: int
    key: int
    version: int
    token: int
    deadline: int


@dataclass(slots=True)
class Channel:
    """`queue` holds the requests that came before the connection was open. `sent` are in order: answers come in the
    order of requests, so the first one is both the next answer and the first to time out."""

    target: int
    owner: str
    connection: int
    open: bool = False
    exchange: Generator[bytes, bytes, None] | None = None
    """While this broker logs in."""
    login: Login | None = None
    """How it logs in, if it must."""
    login_due: int | None = None
    """When it must log in again (monotonic ms)."""
    queue: deque[tuple[Any, int, int]] = field(default_factory=deque)
    sent: deque[Sent] = field(default_factory=deque)
    correlation_id: int = 0


@dataclass(slots=True)
class _Failures:
    """Of logins to one broker, since the last one that succeeded."""

    count: int = 0
    until: int = 0
    """No connection before this."""
    reported_at: int | None = None


class Answer(NamedTuple):
    owner: str
    token: int
    response: Any


class Peers:
    """All channels of a broker. `find` gives where a broker is reached by an owner's requests, None while that is not
    known. `logins` are those of the listeners with SASL, by name. `timeouts` are those of owners with their own, in
    milliseconds."""

    def __init__(
        self,
        client_id: str,
        find: Callable[[int, str], Endpoint | None],
        effects: list[Effect],
        timeout_ms: int,
        logins: Mapping[str, Login] = {},
        timeouts: Mapping[str, int] = {},
    ) -> None:
        self._client_id = client_id
        self._logins = logins
        self._find = find
        self._effects = effects
        self._timeout_ms = timeout_ms
        self._timeouts = timeouts
        self._channels: dict[tuple[int, str], Channel] = {}
        self._by_connection: dict[int, Channel] = {}
        self._last_connection = 0
        self._failures: dict[int, _Failures] = {}
        self.alarm = Alarm()
        self.answers: list[Answer] = []
        """Answers to hand down; the node empties it."""

    def __repr__(self) -> str:
        return f"<Peers {sorted(self._channels)}>"

    def send(self, ask: PeerRequest, version: int | None, now: int) -> None:
        """Send, or connect first. `ask.target` is a broker other than this one."""
        version = VERSIONS[ask.request.__key__] if version is None else version
        channel = self._channels.get((ask.target, ask.owner)) or self._connect(ask.target, ask.owner, now)
        if channel is None:
            self.answers.append(Answer(ask.owner, ask.token, None))
            return
        if channel.login_due is not None and now >= channel.login_due:
            self._begin_login(channel, now)
        if channel.open:
            self._send(channel, ask.request, version, ask.token, now)
        else:
            channel.queue.append((ask.request, version, ask.token))

    def _connect(self, target: int, owner: str, now: int) -> Channel | None:
        endpoint = self._find(target, owner)
        failures = self._failures.get(target)
        if endpoint is None or (failures is not None and now < failures.until):
            return None
        self._last_connection -= 1
        channel = Channel(target, owner, self._last_connection, login=self._logins.get(endpoint.listener))
        self._channels[target, owner] = channel
        self._by_connection[channel.connection] = channel
        self._effects.append(Connect(channel.connection, endpoint.host, endpoint.port, endpoint.listener))
        return channel

    def _send(self, channel: Channel, request: Any, version: int, token: int, now: int) -> None:
        channel.correlation_id = (channel.correlation_id + 1) & 0x7FFFFFFF
        key: int = request.__key__
        deadline = now + self._timeouts.get(channel.owner, self._timeout_ms)
        channel.sent.append(Sent(channel.correlation_id, key, version, token, deadline))
        if deadline < self.alarm.at:
            self.alarm.set(deadline)
        parts = encode_request(key, version, channel.correlation_id, self._client_id, request)
        self._effects.append(Send(channel.connection, parts))

    def connected(self, connection: int, now: int) -> None:
        channel = self._by_connection.get(connection)
        if channel is None:
            self._effects.append(Close(connection))
            return
        if channel.login is None:
            self._open(channel, now)
        else:
            self._begin_login(channel, now)

    def _begin_login(self, channel: Channel, now: int) -> None:
        """Requests that are sent already are answered first; those that come wait for the login."""
        assert channel.login is not None
        channel.open, channel.login_due = False, None
        mechanism, channel.exchange = channel.login()
        self._send(channel, SaslHandshakeRequest(mechanism=mechanism), 1, LOGIN, now)

    def _open(self, channel: Channel, now: int) -> None:
        channel.open = True
        while channel.queue:
            request, version, token = channel.queue.popleft()
            self._send(channel, request, version, token, now)

    def _log_in(self, channel: Channel, answer: Any, now: int) -> None:
        """Go on with the exchange after this answer to SaslHandshake or SaslAuthenticate."""
        assert channel.exchange is not None
        try:
            if answer.error_code:
                if answer.__key__ == AUTHENTICATE:
                    reason = answer.error_message or f"error {answer.error_code}"
                else:
                    reason = f"it offers {', '.join(answer.mechanisms)}"
                raise ApiError(answer.error_code, reason)
            challenge = bytes(answer.auth_bytes) if answer.__key__ == AUTHENTICATE else None
            token = next(channel.exchange) if challenge is None else channel.exchange.send(challenge)
        except StopIteration:
            channel.exchange = None
            if answer.session_lifetime_ms > 0:
                channel.login_due = now + int(answer.session_lifetime_ms * REAUTHENTICATED_AT)
            self._failures.pop(channel.target, None)
            self._open(channel, now)
        except ApiError as refusal:
            self._failed(channel.target, refusal.message, now)
            self.close(channel.connection, "the login failed")
        else:
            self._send(channel, SaslAuthenticateRequest(auth_bytes=token), 2, LOGIN, now)

    def _failed(self, target: int, reason: str | None, now: int) -> None:
        failures = self._failures.setdefault(target, _Failures())
        backoff_ms = LOGIN_BACKOFF_MS << min(failures.count, _MOST_DOUBLINGS)
        failures.count += 1
        failures.until = now + min(backoff_ms, LOGIN_BACKOFF_MAX_MS)
        if failures.reported_at is None or now >= failures.reported_at + REPORT_EVERY_MS:
            failures.reported_at = now
            fields = {"broker": target, "reason": reason, "failures": failures.count}
            self._effects.append(Event("peer.login_failed", fields, level="error"))

    def received(self, connection: int, frame: memoryview, now: int) -> Iterator[Answer]:
        """The answer in this frame; views in it live as long as the caller's turn."""
        channel = self._by_connection.get(connection)
        if channel is None or not channel.sent:
            return
        sent = channel.sent[0]  # until its answer is understood: else it is among those that get none
        correlation_id, response = decode_response(sent.key, sent.version, frame)
        if correlation_id != sent.correlation_id:
            self.close(connection, "an answer to something that was not asked")
            return
        channel.sent.popleft()
        self._stop_awaiting(sent)
        if sent.key in _LOGINS:
            self._log_in(channel, response, now)
            return
        yield Answer(channel.owner, sent.token, response)

    def target_of(self, connection: int) -> int | None:
        """Whom the connection leads to, or would."""
        channel = self._by_connection.get(connection)
        return None if channel is None else channel.target

    def is_of(self, connection: int, owner: str) -> bool:
        """Whether the connection was made for this owner."""
        channel = self._by_connection.get(connection)
        return channel is not None and channel.owner == owner

    def lost(self, connection: int) -> None:
        """The connection failed or broke: its requests get no answer."""
        channel = self._by_connection.pop(connection, None)
        if channel is None:
            return
        del self._channels[channel.target, channel.owner]
        unanswered = [sent for sent in channel.sent if sent.key not in _LOGINS]  # nobody waits for those
        self.answers.extend(Answer(channel.owner, sent.token, None) for sent in unanswered)
        if channel.sent:
            self._stop_awaiting(channel.sent[0])
        self.answers.extend(Answer(channel.owner, token, None) for _, _, token in channel.queue)

    def _stop_awaiting(self, sent: Sent) -> None:
        """The oldest request of a channel is not waited for any more."""
        if sent.deadline == self.alarm.at:
            self.alarm.set(self.next_deadline)

    def close(self, connection: int, reason: str) -> None:
        self._effects.append(Close(connection, reason))
        self.lost(connection)

    def drop(self, target: int, *, of: Collection[str] | None = None) -> None:
        """The broker is gone or elsewhere, or these owners need nothing from it any more: it may hang, and would block
        them until their requests time out."""
        if of is None:
            self._failures.pop(target, None)
        for channel in list(self._channels.values()):
            if channel.target == target and (of is None or channel.owner in of):
                self.close(channel.connection, "the broker is gone")

    def drop_all(self, of: Collection[str]) -> None:
        """These owners need nothing from any broker any more."""
        for target in {target for target, _ in self._channels}:
            self.drop(target, of=of)

    def wake(self, now: Time) -> None:
        """Close channels whose oldest request is overdue: the broker hangs."""
        for channel in list(self._by_connection.values()):
            if channel.sent and channel.sent[0].deadline <= now.mono:
                self.close(channel.connection, "no answer in time")

    @property
    def next_deadline(self) -> int | None:
        return min([c.sent[0].deadline for c in self._by_connection.values() if c.sent], default=None)


def client_id(broker_id: int) -> str:
    """The client id of what this broker sends to others."""
    return f"broker-{broker_id}"


def is_id_of_broker(client_id: str | None) -> bool:
    return client_id is not None and client_id.startswith("broker-") and client_id[7:].isdecimal()


FORWARDING = "forward"
FORWARD_RETRY_MS = 50
FORWARD_TIMEOUT_MS = 30_000


VERSIONS_WITH_REQUESTER = {38: 3, 39: 2, 40: 2}
"""In which requests are forwarded that say, in a field of this project's own, who sent them."""


class Forwarded(NamedTuple):
    request: Any
    version: int
    connection: int
    deadline: int


class Forwarding:
    """Keeps a forwarded request until it is answered; retries while no controller answers, or a deposed one does."""

    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._pending: dict[int, Forwarded] = {}
        self._retries: dict[int, int] = {}
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<Forwarding {len(self._pending)} requests, {len(self._retries)} again>"

    def forward(self, context: Context, request: Any) -> Pending:
        deadline = context.now.mono + FORWARD_TIMEOUT_MS
        version = VERSIONS_WITH_REQUESTER.get(request.__key__, context.version)
        self._pending[context.token] = Forwarded(request, version, context.connection, deadline)
        self._send_to_controller(context.token)
        return PENDING

    def _send_to_controller(self, token: int) -> None:
        self._effects.append(PeerRequest(CONTROLLER, self._pending[token].request, FORWARDING, token))

    def version(self, token: int) -> int:
        """A forwarded request keeps the version of the client's request, unless that cannot say who sent it."""
        return self._pending[token].version

    def answered(self, token: int, response: Any, now: Time) -> None:
        forwarded = self._pending.get(token)
        if forwarded is None:
            return
        if (response is None or is_from_no_controller(response)) and now.mono < forwarded.deadline:
            self._retries[token] = now.mono + FORWARD_RETRY_MS
            self.alarm.set(self.next_deadline)
            return
        del self._pending[token]
        if response is None:
            self._effects.append(Close(forwarded.connection, "no controller answered in time"))
        else:
            self._effects.append(Reply(token, response))

    def wake(self, now: Time) -> None:
        for token in [token for token, moment in self._retries.items() if moment <= now.mono]:
            del self._retries[token]
            self._send_to_controller(token)
        self.alarm.set(self.next_deadline)

    @property
    def next_deadline(self) -> int | None:
        return min(self._retries.values()) if self._retries else None
