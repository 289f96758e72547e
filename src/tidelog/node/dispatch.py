"""From frames to handlers and from answers to frames; answers leave in request order on each connection."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from tidelog.api import registry
from tidelog.api.context import Broker, Context, Handed
from tidelog.api.registry import APIS
from tidelog.effects import Close, Effect, Event, Later, Part, Pause, Send
from tidelog.errors import ProtocolViolation
from tidelog.model import Time
from tidelog.node.connections import Connection, Ticket
from tidelog.node.waiting import Waiting
from tidelog.wire.codec import RequestHeader, decode_request, encode_response

API_VERSIONS = 18
PAUSE_ABOVE = 500
"""Unanswered requests of one connection; reading goes on below half of it (`queued.max.requests`)."""

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
        if connection.pipeline.waiting > PAUSE_ABOVE and not connection.paused:
            connection.paused = True
            self._effects.append(Pause(number, paused=True))

    def _refuse(self, connection: Connection, reason: str) -> None:
        fields = {"peer": connection.peer, "reason": reason}
        self._effects.append(Event("connection.refused", fields, level="warning"))
        self._effects.append(Close(connection.number, reason))
        self.closed(connection.number)

    def _request(self, connection: Connection, frame: memoryview, now: Time) -> None:
        header, request = self._decode(connection, frame)
        self.requests += 1
        slot = connection.pipeline.open()
        context = self._context(connection, header, now)
        ticket = Ticket(connection, slot, header.api_key, header.api_version, header.correlation_id)
        self._run(ticket, request, context)

    def _decode(self, connection: Connection, frame: memoryview) -> tuple[RequestHeader, Any]:
        """The request, if this listener serves it. ApiVersions is let through in any version: it says which exist."""
        key = int.from_bytes(frame[:2], signed=True)
        api = APIS.get(key)
        if api is None or (api.caller == "broker" and connection.listener != self._inter_broker):
            raise ProtocolViolation(f"API key {key} is not served on listener {connection.listener}")
        version = int.from_bytes(frame[2:4], signed=True)
        if not api.low <= version <= api.high and key != API_VERSIONS:
            raise ProtocolViolation(f"version {version} of {api.name} is not served")
        return decode_request(frame)

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
        self._run(Ticket(None, None, key, version, 0, owner, token), request, context)

    def _run(self, ticket: Ticket, request: Any, context: Context) -> None:
        handle = self._handlers.get(ticket.key)
        if handle is None:
            handle = self._handlers[ticket.key] = registry.handler(APIS[ticket.key])
        self._settle(ticket, handle(request, context), context)

    def _settle(self, ticket: Ticket, answer: Any, context: Context) -> None:
        """Send the answer, or keep the ticket until it comes."""
        if isinstance(answer, Later):
            self._tickets[context.token] = ticket
            self._waiting.add(context, answer)
        elif isinstance(answer, Handed):
            self._tickets[context.token] = ticket
        else:
            self._answer(ticket, answer)
        if context.effects:
            self._effects.extend(context.effects)
            context.effects.clear()

    def resume(self, now: Time) -> None:
        """Carry on with whatever stopped waiting."""
        for wait in self._waiting.ready():
            context: Context = wait.context
            ticket = self._tickets.pop(context.token, None)
            if ticket is None or self._is_gone(ticket):
                continue
            context.now = now
            self._settle(ticket, wait.later.resume(context, *wait.later.arguments), context)

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
            known = APIS[ticket.key].high >= ticket.version
            version = ticket.version if known else 0
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
