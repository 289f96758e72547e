"""The seam between a broker and its connections: `DisturbedServer` is a server through which faults reach requests.

Requests of clients pass it on their way to the node, and answers on their way to the socket. Those of other brokers
pass unseen, unless the brokers are partitioned. Everything here runs on the broker's event loop.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

from tidelog.config import listeners
from tidelog.config.broker import BrokerConfig
from tidelog.effects import Close, Connect, FileSlice, Part, PutBack, Send
from tidelog.errors import ProtocolViolation
from tidelog.model import Time
from tidelog.node.node import Node
from tidelog.shell.server import Server
from tidelog.testing.answers import Answers, Slot, encoded, refusal
from tidelog.testing.clocks import VirtualClock
from tidelog.testing.names import NAMES
from tidelog.testing.narrowing import (
    FETCH,
    METADATA,
    Place,
    concerns,
    divide,
    empty_answer,
    fail_metadata,
    fail_topics,
    without_session,
)
from tidelog.testing.requests import SERVED, Action, Request, RequestFault, RequestLog
from tidelog.wire.codec import RequestHeader, decode_header, decode_request, encode_request
from tidelog.wire.encoding import part_size
from tidelog.wire.messages.records.fetch import FetchResponse

PRODUCE = 0


class Wire:
    """What one broker's connections are subject to. The test's thread replaces its fields, and the event loop reads
    them."""

    def __init__(self, broker: int, peer_at: Callable[[int], int], spared: Collection[str]) -> None:
        """`peer_at` returns the broker whose inter-broker listener has this port; requests of the client ids `spared`
        are neither disturbed nor logged."""
        self.broker = broker
        self.peer_at = peer_at
        self.spared = spared
        self.log = RequestLog()
        self.faults: Sequence[RequestFault] = ()
        self.unreachable: Collection[int] = ()
        """The brokers to which this one cannot connect."""
        self.shunned: Collection[int] = ()
        """The followers whose fetches are refused."""
        self.bytes_per_s: float | None = None
        self.serves_clients = True

    def __repr__(self) -> str:
        return f"Wire of broker {self.broker} ({len(self.faults)} faults)"


class _Held(NamedTuple):
    """A frame that waits. `action` is None until a fault was looked for."""

    frame: bytes
    action: Action | None


class _Client:
    """A client's connection. `put_back` counts the frames that the node will be given again: they were judged
    before."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.answers = Answers()
        self.held: deque[_Held] = deque()
        self.is_waiting = False
        """Whether a timer will release the first held frame."""
        self.put_back = 0
        self.outbox: deque[tuple[float, list[Part]]] = deque()
        """Answers that leave at these times of the loop."""

    def __repr__(self) -> str:
        return f"_Client({self.number}, {len(self.held)} frames held, {self.answers})"


class _Outcome(NamedTuple):
    """What becomes of a request: it has an answer (`parts`), or the node serves the frame, and `change` its answer."""

    frame: memoryview
    parts: Sequence[Part] | None = None
    change: Callable[[Any], None] | None = None


class DisturbedServer(Server):
    """A server whose requests and connections are subject to `wire`, and whose timer follows `clock`."""

    def __init__(self, *arguments: Any, wire: Wire, clock: VirtualClock, **options: Any) -> None:
        super().__init__(*arguments, **options)
        config = next(each for each in arguments if isinstance(each, BrokerConfig))
        node = next(each for each in arguments if isinstance(each, Node))
        self._topic_name = node.broker.topic_name
        self._inter_broker = listeners.inter_broker_listener(config)
        self._wire = wire
        self._clock = clock
        self._clients: dict[int, _Client] = {}
        self._peers: dict[int, int] = {}
        """The brokers to which this one is connected, by connection."""
        self._free_at = 0.0
        """When the link has carried what it was given (`Wire.bytes_per_s`)."""
        self._effect_handlers[Send] = self._send
        self._effect_handlers[PutBack] = self._put_back

    # For the test's thread, called on the loop.

    def cut_connections(self) -> int:
        """Close the connections of all clients; returns how many there were."""
        numbers = list(self._clients)
        for number in numbers:
            self._traffic.drop(number)
        return len(numbers)

    def cut_unreachable(self) -> None:
        """Close the connections with brokers and clients that must not reach this broker any more."""
        if not self._wire.serves_clients:
            self.cut_connections()
        for number, peer in list(self._peers.items()):
            if peer in self._wire.unreachable:
                self._traffic.drop(number)

    def cut_peer(self, broker: int) -> None:
        """Close the connections that this broker opened to another one."""
        for number, peer in list(self._peers.items()):
            if peer == broker:
                self._traffic.drop(number)

    def change_clock(self, change: Callable[[VirtualClock], None]) -> None:
        """Change the clock, do what is due, and set the timer anew: it was set for another pace of time."""
        change(self._clock)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.notify(self._node.wake)

    def _set_timer(self) -> None:
        """While the clock stands still, only what is due by now happens."""
        deadline = self._node.next_deadline
        if not self._clock.is_stopped or (deadline is not None and deadline <= self._now().mono):
            super()._set_timer()

    # Connections.

    def connection_opened(self, number: int, listener: str, host: str, principal: str) -> None:
        if number > 0 and listener != self._inter_broker:
            self._clients[number] = _Client(number)
        super().connection_opened(number, listener, host, principal)
        is_refused = number in self._clients and not self._wire.serves_clients
        if is_refused or self._peers.get(number) in self._wire.unreachable:
            self._loop.call_soon(self._traffic.drop, number)

    def connection_closed(self, number: int) -> None:
        self._forget(number)
        super().connection_closed(number)

    def _close(self, effect: Close) -> None:
        self._forget(effect.connection)
        super()._close(effect)

    def _forget(self, number: int) -> None:
        self._clients.pop(number, None)
        self._peers.pop(number, None)

    def _connect(self, effect: Connect) -> None:
        peer = self._wire.peer_at(effect.port)
        if peer in self._wire.unreachable:
            self._loop.call_soon(self.notify, self._node.connect_failed, effect.connection, "partitioned")
            return
        self._peers[effect.connection] = peer
        super()._connect(effect)

    # Requests.

    def frames_received(self, number: int, frames: Sequence[memoryview], now: Time) -> None:
        client = self._clients.get(number)
        if client is None:
            if number < 0 or not self._wire.shunned or not self._is_shunned(frames[0]):
                super().frames_received(number, frames, now)
            else:
                self._loop.call_soon(self._traffic.drop, number)
            return
        again = min(client.put_back, len(frames))
        client.put_back -= again
        served: list[memoryview] = list(frames[:again])
        for frame in frames[again:]:
            action = None if client.held else self._action(frame)
            if action is None or action.delay_s > 0:
                client.held.append(_Held(bytes(frame), action))
            else:
                self._apply(client, frame, action, served)
        self._serve(client, served)
        if client.held:
            self._release(client)

    def _is_shunned(self, frame: memoryview) -> bool:
        header = decode_header(frame)
        return header.api_key == FETCH and header.client_id in [f"broker-{peer}" for peer in self._wire.shunned]

    def _action(self, frame: memoryview) -> Action:
        """What happens to this request, which is logged."""
        wire = self._wire
        try:
            header = decode_header(frame)
        except ProtocolViolation:
            return SERVED  # the node closes the connection
        if header.client_id in wire.spared or header.api_key not in NAMES:
            return SERVED
        request = Request(wire.broker, NAMES[header.api_key], header, bytes(frame))
        wire.log.add(request)
        action = Action(delay_s=self._transfer_s(len(frame)))
        for fault in wire.faults:
            if fault.strikes(wire.broker, header, partial(self._names, request)):
                action = action.before(fault.action)
        return action

    def _names(self, request: Request, place: Place) -> bool:
        try:
            return concerns(request.body, place, self._topic_name)
        except ProtocolViolation:
            return False  # the node closes the connection

    def _release(self, client: _Client) -> None:
        """Go on with the frames that were held, or wait until that is due."""
        served: list[memoryview] = []
        while client.held and not client.is_waiting and not client.put_back:
            frame, action = client.held[0]
            action = action or self._action(memoryview(frame))
            if action.delay_s > 0:
                client.held[0] = _Held(frame, action._replace(delay_s=0))
                client.is_waiting = True
                self._loop.call_later(action.delay_s, self._delay_is_over, client)
                break
            client.held.popleft()
            self._apply(client, memoryview(frame), action, served)
        self._serve(client, served)

    def _delay_is_over(self, client: _Client) -> None:
        client.is_waiting = False
        if self._clients.get(client.number) is client and not self.stopping:
            self._release(client)

    def _apply(self, client: _Client, frame: memoryview, action: Action, served: list[memoryview]) -> None:
        """Answer the request, lose it, or add it, or what is left of it, to those that the node is to serve."""
        try:
            header = decode_header(frame)
            is_silent = header.api_key == PRODUCE and decode_request(frame)[1].acks == 0
            outcome = self._outcome(client, header, frame, action)
        except ProtocolViolation:
            served.append(frame)
            return
        is_served = outcome.parts is None and (action.applied or not action.lost)
        if is_served:
            served.append(outcome.frame)
        if not is_silent:
            slot = Slot(header, outcome.parts, awaited=is_served, lost=action.lost, change=outcome.change)
            client.answers.add(slot)
        elif outcome.parts is not None or outcome.change is not None:
            self._loop.call_soon(self._traffic.drop, client.number)  # as brokers do after an error with acks=0

    def _outcome(self, client: _Client, header: RequestHeader, frame: memoryview, action: Action) -> "_Outcome":
        if action.answer is not None:
            return _Outcome(frame, self._controlled(client, header, frame, action.answer))
        is_metadata = header.api_key == METADATA
        if action.code is not None:
            if is_metadata:
                return _Outcome(frame, change=partial(fail_topics, code=action.code))
            return _Outcome(frame, refusal(header, decode_request(frame)[1], action.code))
        if action.failures:
            if is_metadata:
                return _Outcome(frame, change=partial(fail_metadata, failures=action.failures))
            request = decode_request(frame)[1]
            left, complete = divide(request, action.failures, self._topic_name)
            if left is not None:
                return _Outcome(_encoded_request(header, left), change=complete)
            response = empty_answer(request)
            complete(response)
            return _Outcome(frame, encoded(header, response))
        if header.api_key == FETCH and self._is_watched(header):
            fetch = without_session(decode_request(frame)[1])
            if isinstance(fetch, FetchResponse):
                return _Outcome(frame, encoded(header, fetch))
            return _Outcome(_encoded_request(header, fetch))
        return _Outcome(frame)

    def _is_watched(self, header: RequestHeader) -> bool:
        """Whether a fault looks for requests that name its topic."""
        return any(
            each.scope.place is not None and each.is_near(self._wire.broker, header) for each in self._wire.faults
        )

    def _controlled(
        self, client: _Client, header: RequestHeader, frame: memoryview, answer: Callable[[Request], Any]
    ) -> Sequence[Part] | None:
        """The test's own answer; None if the node is to give one."""
        api = NAMES[header.api_key]
        try:
            response = answer(Request(self._wire.broker, api, header, bytes(frame)))
            return None if response is None else encoded(header, response)
        except Exception as error:  # noqa: BLE001 (a mistake of the test, not of the broker)
            self.log_error("control.failed", f"{api}: {error!r}")
            self._loop.call_soon(self._traffic.drop, client.number)
            return None

    def _serve(self, client: _Client, frames: Sequence[memoryview]) -> None:
        if frames:
            super().frames_received(client.number, frames, self._now())
        if self._clients.get(client.number) is client:
            self._put(client, client.answers.ready())
            self._traffic.flush()

    def _put_back(self, effect: PutBack) -> None:
        client = self._clients.get(effect.connection)
        if client is not None:
            client.put_back += len(effect.frames)
        self._traffic.put_back(effect.connection, effect.frames)

    # Answers.

    def _send(self, effect: Send) -> None:
        client = self._clients.get(effect.connection)
        if client is None:
            self._traffic.put(effect.connection, effect.parts)
        else:
            self._put(client, client.answers.answered(effect.parts))

    def _put(self, client: _Client, parts: list[Part]) -> None:
        """Send the parts, at the speed of the link."""
        if not parts:
            return
        wait_s = self._transfer_s(sum(map(part_size, parts)))
        if not wait_s and not client.outbox:
            self._traffic.put(client.number, parts)
            return
        client.outbox.append((self._loop.time() + wait_s, parts))
        if len(client.outbox) == 1:
            self._loop.call_later(wait_s, self._drain, client)

    def _drain(self, client: _Client) -> None:
        """Send what is due, and come again for the rest."""
        if self._clients.get(client.number) is not client or self.stopping:
            return
        now = self._loop.time()
        while client.outbox and client.outbox[0][0] <= now:
            self._traffic.put(client.number, client.outbox.popleft()[1])
        if client.outbox:
            self._loop.call_later(client.outbox[0][0] - now, self._drain, client)
        self._traffic.flush()

    def _transfer_s(self, size: int) -> float:
        """How long from now the link takes until it has carried these bytes too."""
        speed = self._wire.bytes_per_s
        if speed is None:
            return 0.0
        now = self._loop.time()
        self._free_at = max(self._free_at, now) + size / speed
        return self._free_at - now


def _encoded_request(header: RequestHeader, request: Any) -> memoryview:
    """The frame of a request, as the node takes it."""
    parts = encode_request(*header, request)
    return memoryview(b"".join(part for part in parts if not isinstance(part, FileSlice)))[4:]
