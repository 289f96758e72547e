"""The connection to one broker: connect, negotiate versions, then requests and responses in order."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tidelog import __version__
from tidelog.client.backoff import Backoff
from tidelog.effects import Close, Connect, Effect, Send
from tidelog.errors import ErrorCode, ProtocolViolation
from tidelog.wire import codec
from tidelog.wire.messages import SCHEMAS

API_VERSIONS = 18

_SOFTWARE = ("tidelog", __version__)
_HANDSHAKE = object()  # the token of the only request that a link sends on its own


class LinkState(Enum):
    """CONNECTING waits for the world, NEGOTIATING for the broker's versions; requests are sent only when READY."""

    IDLE = auto()
    CONNECTING = auto()
    NEGOTIATING = auto()
    READY = auto()


@dataclass(slots=True)
class Call:
    """A request and its state. `deadline` (monotonic ms) covers the time from `submit` to the response.

    `newest` bounds the version, for requests that lack fields of newer versions. `version` is -1 until it is sent.
    """

    token: Any
    key: int
    request: Any
    deadline: int
    newest: int = 32767
    expects_answer: bool = True
    version: int = -1
    correlation_id: int = -1


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a call: a response, or the fault that means there is none. NETWORK_EXCEPTION: the broker may or
    may not have acted; BROKER_NOT_AVAILABLE: the request was never sent."""

    token: Any
    node: int
    version: int = -1
    response: Any = None
    fault: ErrorCode = ErrorCode.NONE


class Link:
    """The connection to one broker. The network takes the collected effects and answers."""

    def __init__(self, node: int, host: str, port: int, client_id: str, backoff: Backoff) -> None:
        self.node = node
        self.host = host
        self.port = port
        self.state = LinkState.IDLE
        self.connection = 0
        self.effects: list[Effect] = []
        self.answers: list[Answer] = []
        self.retry_at = 0
        self._client_id = client_id
        self._backoff = backoff
        self.waiting: deque[Call] = deque()
        self.in_flight: deque[Call] = deque()
        self._versions: Mapping[int, tuple[int, int]] = {}
        self.features: Mapping[str, int] = {}
        """The levels of the cluster's features, as far as the broker reports them."""
        self._correlation_id = 0
        self._setup_deadline = 0

    def __repr__(self) -> str:
        return f"<Link {self.node} {self.host}:{self.port} {self.state.name} in flight {len(self.in_flight)}>"

    @property
    def load(self) -> int:
        """The number of calls without an answer."""
        return len(self.waiting) + len(self.in_flight)

    def is_usable(self, now_ms: int) -> bool:
        """Whether a call would be sent, or at least a connection attempted, at once."""
        return self.state is not LinkState.IDLE or now_ms >= self.retry_at

    def versions_of(self, key: int) -> tuple[int, int] | None:
        """The range that both sides support; None before the link is ready, or if there is none."""
        theirs = self._versions.get(key)
        schema = SCHEMAS[key]
        if theirs is None:
            return None
        low, high = max(theirs[0], schema.min_version), min(theirs[1], schema.max_version)
        return (low, high) if low <= high else None

    def submit(self, call: Call) -> None:
        """Send the call as soon as the link is ready."""
        self.waiting.append(call)
        if self.state is LinkState.READY:
            self._flush()

    def open(self, connection: int, deadline: int) -> None:
        """Start to connect; the link must be idle and `retry_at` must have passed."""
        self.state = LinkState.CONNECTING
        self.connection = connection
        self._setup_deadline = deadline
        self.effects.append(Connect(connection, self.host, self.port))

    @property
    def wants_connection(self) -> bool:
        return self.state is LinkState.IDLE and bool(self.waiting)

    def connected(self) -> None:
        self.state = LinkState.NEGOTIATING
        self._request_versions(SCHEMAS[API_VERSIONS].max_version)

    def _request_versions(self, version: int) -> None:
        request = SCHEMAS[API_VERSIONS].request(client_software_name=_SOFTWARE[0], client_software_version=_SOFTWARE[1])
        call = Call(_HANDSHAKE, API_VERSIONS, request, self._setup_deadline)
        self._send(call, version)

    def lost(self, now_ms: int, *, close_reason: str | None = None) -> None:
        """The connection is gone, or is closed for `close_reason`: every call is answered with a fault."""
        if close_reason is not None:
            self.effects.append(Close(self.connection, close_reason))
        self.state = LinkState.IDLE
        self.connection = 0
        self.retry_at = now_ms + self._backoff.next_ms()
        calls = [(call, ErrorCode.NETWORK_EXCEPTION) for call in self.in_flight if call.token is not _HANDSHAKE]
        calls += [(call, ErrorCode.BROKER_NOT_AVAILABLE) for call in self.waiting]
        self.in_flight.clear()
        self.waiting.clear()
        for call, fault in calls:
            self._answer(call, fault=fault)

    def close(self) -> None:
        """Close without answering the open calls."""
        if self.state is not LinkState.IDLE:
            self.effects.append(Close(self.connection))
        self.state = LinkState.IDLE
        self.waiting.clear()
        self.in_flight.clear()

    def received(self, frame: memoryview, now_ms: int) -> None:
        """One response. A frame that is not the next response loses the connection."""
        if not self.in_flight:
            self.lost(now_ms, close_reason="an answer to no request")
            return
        call = self.in_flight.popleft()
        try:
            if call.token is _HANDSHAKE:
                self._learn_versions(call, frame, now_ms)
                return
            correlation_id, response = codec.decode_response(call.key, call.version, frame)
        except ProtocolViolation as violation:
            self.in_flight.appendleft(call)
            self.lost(now_ms, close_reason=str(violation))
            return
        if correlation_id != call.correlation_id:
            self.in_flight.appendleft(call)
            self.lost(now_ms, close_reason="an answer out of order")
            return
        self._answer(call, response=response)

    def _learn_versions(self, call: Call, frame: memoryview, now_ms: int) -> None:
        """Take the broker's versions. A broker that does not support our version of ApiVersions answers in version 0,
        with its own range."""
        refused = int.from_bytes(frame[4:6], signed=True) == ErrorCode.UNSUPPORTED_VERSION
        _, response = codec.decode_response(API_VERSIONS, 0 if refused else call.version, frame)
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        if refused:
            common = self.versions_of(API_VERSIONS)
            self._request_versions(min(common[1], call.version - 1) if common else 0)
        elif response.error_code:
            self.lost(now_ms, close_reason=f"ApiVersions was refused with {response.error_code}")
        else:
            self.features = {feature.name: feature.max_version_level for feature in response.finalized_features}
            self.state = LinkState.READY
            self._backoff.succeeded()
            self._flush()

    def wake(self, now_ms: int) -> None:
        """Expire calls. One late response closes the connection, since the responses behind it would be late as well.

        If one of the calls that wait for the connection expires, all of them fail: otherwise a caller that retries the
        expired one would send it after those submitted later.
        """
        if self.state in (LinkState.CONNECTING, LinkState.NEGOTIATING) and now_ms >= self._setup_deadline:
            self.lost(now_ms, close_reason="it took too long to connect")
            return
        late = [call for call in self.in_flight if now_ms >= call.deadline and call.token is not _HANDSHAKE]
        for call in late:
            self.in_flight.remove(call)
            self._answer(call, fault=ErrorCode.REQUEST_TIMED_OUT)
        if late:
            self.lost(now_ms, close_reason="an answer took too long")
        if any(now_ms >= call.deadline for call in self.waiting):
            waiting, self.waiting = self.waiting, deque()
            for call in waiting:
                self._answer(call, fault=ErrorCode.BROKER_NOT_AVAILABLE)

    @property
    def deadline(self) -> int | None:
        """When `wake` must be called at the latest, or a connection is due. Called for every link after every input, so
        it must be fast."""
        state = self.state
        calls = self.in_flight if state is LinkState.READY else self.waiting
        if not calls:
            return self._setup_deadline if state is LinkState.CONNECTING or state is LinkState.NEGOTIATING else None
        first = calls[0].deadline if len(calls) == 1 else min([call.deadline for call in calls])
        if state is LinkState.READY:
            return first
        return min(first, self.retry_at if state is LinkState.IDLE else self._setup_deadline)

    def _flush(self) -> None:
        while self.waiting:
            call = self.waiting.popleft()
            common = self.versions_of(call.key)
            if common is None or common[0] > call.newest:
                self._answer(call, fault=ErrorCode.UNSUPPORTED_VERSION)
            else:
                self._send(call, min(common[1], call.newest))

    def _send(self, call: Call, version: int) -> None:
        self._correlation_id = self._correlation_id + 1 & 0x7FFFFFFF
        call.correlation_id = self._correlation_id
        call.version = version
        parts = codec.encode_request(call.key, version, call.correlation_id, self._client_id, call.request)
        self.effects.append(Send(self.connection, parts))
        if call.expects_answer:
            self.in_flight.append(call)
        else:
            self._answer(call)

    def _answer(self, call: Call, *, response: Any = None, fault: ErrorCode = ErrorCode.NONE) -> None:
        self.answers.append(Answer(call.token, self.node, call.version, response, fault))
