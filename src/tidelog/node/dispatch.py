"""From frames to handlers and from answers to frames; answers leave in request order on each connection."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from struct import Struct
from typing import Any

from tidelog.api import registry
from tidelog.api.context import Broker, Context, Handed
from tidelog.api.registry import APIS
from tidelog.effects import Close, Effect, Event, Later, Part, Pause, Send
from tidelog.errors import DiskFailed, ProtocolViolation
from tidelog.model import Time
from tidelog.node.connections import Connection, Ticket
from tidelog.node.waiting import Waiting
from tidelog.wire.codec import RequestHeader, decode_request, encode_response

API_VERSIONS = 18
PAUSE_ABOVE = 500
"""Unanswered requests of one connection; reading goes on below half of it (`queued.max.requests`)."""

_KEY_AND_VERSION = Struct(">hh")
_DEFERRED = (Later, Handed)

OWN = Connection(0, "", "self", "ANONYMOUS")


class Dispatch:
    """Calls handlers and sends what they answer. `effects` is the node's list of wishes of the present input."""

    def __init__(self, broker: Broker, waiting: Waiting, effects: list[Effect], listener: str) -> None:
        self._broker = broker
        self._waiting = waiting
        self._effects = effects
        self._inter_broker = listener
        self._handlers: dict[int, Callable[[Any, Context], Any]] = {}
        self._connections: dict[int, Connection] = {}
        self._tickets: dict[int, Ticket] = {}
        self._tokens = count(1)
        self._outgoing: dict[int, list[Part]] = {}
        self.own_answers: list[tuple[str, int, Any]] = []
        """(owner, token, response) of requests that this broker asked itself."""
        self.requests = 0

    def opened(self, number: int, listener: str, peer: str, principal: str) -> None:
        self._connections[number] = Connection(number, listener, peer, principal)

    def closed(self, number: int) -> None:
        """Answers still deferred are dropped when they come."""
        self._connections.pop(number, None)
        self._outgoing.pop(number, None)

    def receive(self, number: int, frames: Iterable[memoryview], now: Time) -> None:
        connection = self._connections.get(number)
        if connection is None:
            return
        for frame in frames:
            try:
                self._request(connection, frame, now)
            except ProtocolViolation as violation:
                self._refuse(connection, str(violation))
                return
            except DiskFailed as failure:
                self._disk_failed(connection, failure)
                return
        if connection.pipeline.waiting > PAUSE_ABOVE and not connection.paused:
            connection.paused = True
            self._effects.append(Pause(number, paused=True))

    def _refuse(self, connection: Connection, reason: str) -> None:
        fields = {"peer": connection.peer, "reason": reason}
        self._effects.append(Event("connection.refused", fields, level="warning"))
        self._effects.append(Close(connection.number, reason))
        self.closed(connection.number)

    def _disk_failed(self, connection: Connection | None, failure: DiskFailed) -> None:
        """What a handler did not expect of its disk: the folder goes offline, and the client asks again elsewhere."""
        self._broker.folder_failed(failure.folder, failure.reason)
        if connection is not None:
            self._refuse(connection, failure.reason)

    def _request(self, connection: Connection, frame: memoryview, now: Time) -> None:
        """Most requests are answered at once on a connection where nothing waits: those need no place in the order."""
        key, version = _KEY_AND_VERSION.unpack_from(frame) if len(frame) >= _KEY_AND_VERSION.size else (-1, -1)
        if not self._is_served(key, version, connection.listener):
            raise ProtocolViolation(f"API key {key} in version {version} is not served on {connection.listener}")
        header, request = decode_request(frame)
        self.requests += 1
        context = self._context(connection, header, now)
        answer = self._call(key, request, context)
        if connection.pipeline.waiting or type(answer) in _DEFERRED:
            ticket = Ticket(connection, connection.pipeline.open(), key, version, header.correlation_id)
            self._settle(ticket, answer, context)
        elif answer is not None:
            parts = encode_response(key, _answerable(key, version), header.correlation_id, answer)
            self._outgoing.setdefault(connection.number, []).extend(parts)
        if context.effects:
            self._effects.extend(context.effects)

    def _is_served(self, key: int, version: int, listener: str) -> bool:
        """ApiVersions is let through in any version: its answer says which exist."""
        api = APIS.get(key)
        if api is None or (api.caller == "broker" and listener != self._inter_broker):
            return False
        return api.low <= version <= api.high or key == API_VERSIONS

    def _context(self, connection: Connection, header: RequestHeader, now: Time) -> Context:
        return Context(
            self._broker,
            now,
            header.api_version,
            header.client_id,
            connection.number,
            connection.listener,
            connection.peer,
            connection.principal,
            next(self._tokens),
            [],
        )

    def ask_self(self, key: int, version: int, request: Any, owner: str, token: int, now: Time) -> None:
        """Serve a request of this broker to itself, without a socket."""
        header = RequestHeader(key, version, 0, None)
        context = self._context(OWN, header, now)
        context.listener = self._inter_broker
        ticket = Ticket(None, None, key, version, 0, owner, token)
        self._settle(ticket, self._call(key, request, context), context)
        self._effects.extend(context.effects)

    def _call(self, key: int, request: Any, context: Context) -> Any:
        handle = self._handlers.get(key)
        if handle is None:
            handle = self._handlers[key] = registry.handler(APIS[key])
        return handle(request, context)

    def _settle(self, ticket: Ticket, answer: Any, context: Context) -> None:
        """Send the answer, or keep the ticket until it comes."""
        if isinstance(answer, Later):
            self._tickets[context.token] = ticket
            self._waiting.add(context, answer)
        elif isinstance(answer, Handed):
            self._tickets[context.token] = ticket
        else:
            self._answer(ticket, answer)

    def resume(self, now: Time) -> None:
        """Carry on with whatever stopped waiting."""
        for wait in self._waiting.ready():
            context: Context = wait.context
            ticket = self._tickets.pop(context.token, None)
            if ticket is None or self._is_gone(ticket):
                continue
            context.now = now
            context.effects = []
            try:
                self._settle(ticket, wait.later.resume(context, *wait.later.arguments), context)
            except DiskFailed as failure:
                self._disk_failed(ticket.connection, failure)
            self._effects.extend(context.effects)

    def reply(self, token: int, response: Any) -> None:
        """An actor's answer to the request with this token."""
        ticket = self._tickets.pop(token, None)
        if ticket is not None:
            self._answer(ticket, response)

    def _is_gone(self, ticket: Ticket) -> bool:
        return ticket.connection is not None and ticket.connection.number not in self._connections

    def _answer(self, ticket: Ticket, response: Any) -> None:
        connection = ticket.connection
        if connection is None or ticket.slot is None:
            self.own_answers.append((ticket.owner, ticket.token, response))
            return
        if connection.number not in self._connections:
            return
        parts: Sequence[Part] | None = None
        if response is not None:
            version = _answerable(ticket.key, ticket.version)
            parts = encode_response(ticket.key, version, ticket.correlation_id, response)
        ready = connection.pipeline.answer(ticket.slot, parts)
        if ready:
            self._outgoing.setdefault(connection.number, []).extend(ready)
        if connection.paused and connection.pipeline.waiting < PAUSE_ABOVE // 2:
            connection.paused = False
            self._effects.append(Pause(connection.number, paused=False))

    def flush(self, out: list[Effect]) -> None:
        """One Send for each connection that has answers."""
        for number, parts in self._outgoing.items():
            out.append(Send(number, parts))
        self._outgoing.clear()


def _answerable(key: int, version: int) -> int:
    """ApiVersions in a version that is not known is answered in its first (KIP-511)."""
    return version if key != API_VERSIONS or 0 <= version <= APIS[API_VERSIONS].high else 0
