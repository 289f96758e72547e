"""Decodes frames, calls the handlers of their APIs, and sends the answers in request order on each connection.

A request takes one of two paths. If its handler returns the answer and no earlier request of the connection waits, the
answer is encoded at once. Otherwise a `Ticket` keeps its slot in the connection's order until `resume` or `reply`.

A protocol violation, or a bug in serving one request, closes that connection and writes one log line. A failed
assertion stops the process, because then the state itself may be wrong.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from struct import Struct
from typing import Any

from tidelog.api import registry
from tidelog.api.authorization import authorize
from tidelog.api.context import Access, Broker, Context, Pending
from tidelog.api.registry import APIS
from tidelog.effects import Close, Deferred, Effect, Event, Part, Pause, Retain, Send
from tidelog.errors import DiskFailed, ProtocolViolation
from tidelog.model import Time
from tidelog.node.authentication import AUTHENTICATE, Authentication
from tidelog.node.authorizer import Authorizer
from tidelog.node.client_throttling import Billing, Muting
from tidelog.node.connections import Connection, Ticket, answerable
from tidelog.node.purgatory import Purgatory
from tidelog.security.sasl import SaslListener
from tidelog.wire.codec import API_VERSIONS, RequestHeader, decode_request, encode_response

PAUSE_ABOVE = 500
"""A connection with more unanswered requests is not read until there are less than half as many. Kafka limits them by
`queued.max.requests` for all connections together."""

_KEY_AND_VERSION = Struct(">hh")
_DEFERRED = (Deferred, Pending)
_PROPAGATED = (ProtocolViolation, AssertionError)
"""Not a bug in one handler: `receive` closes the connection for the first, the second stops the process."""

SELF = Connection(0, "", "self", "ANONYMOUS")
"""The connection of requests that this broker sends to itself."""


class Dispatch:
    """`effects` is the node's list of effects of the present input."""

    def __init__(
        self,
        broker: Broker,
        purgatory: Purgatory,
        effects: list[Effect],
        listener: str,
        sasl: Mapping[str, SaslListener],
        authorizer: Authorizer | None,
    ) -> None:
        """`listener` is the inter-broker listener; `sasl` are the listeners with SASL, by name. Without an authorizer
        everything is allowed to everybody."""
        self._broker = broker
        self._purgatory = purgatory
        self._effects = effects
        self._inter_broker = listener
        self._quotas = broker.quotas
        self.muting = Muting(effects)
        self.billing = Billing(broker.quotas, self.muting)
        self._sasl = sasl
        self._authorizer = authorizer
        self._handlers: dict[int, Callable[[Any, Context], Any]] = {}
        """By API key; a handler's module is imported when its API is first requested."""
        self._connections: dict[int, Connection] = {}
        self._tickets: dict[int, Ticket] = {}
        """Deferred requests by token."""
        self._unblocked: list[Connection] = []
        """Connections whose blocking request has been answered."""
        self._tokens = count(1)
        self._outgoing: dict[int, list[Part]] = {}
        """Encoded answers of the present input, by connection: `flush` makes one Send of each list."""
        self.own_answers: list[tuple[str, int, Any]] = []
        """(owner, token, response) of requests that this broker sent to itself."""
        self.requests: Counter[int] = Counter()
        """The number of requests from other processes, by API key."""

    def __repr__(self) -> str:
        return f"<Dispatch {len(self._connections)} connections, {len(self._tickets)} requests open>"

    def opened(self, number: int, listener: str, peer: str, principal: str) -> None:
        connection = self._connections[number] = Connection(number, listener, peer, principal)
        sasl = self._sasl.get(listener)
        if sasl is not None:
            limit = self._broker.config.socket_request_max_bytes
            connection.authentication = Authentication(number, peer, sasl, self._effects, limit)

    def closed(self, number: int) -> None:
        """The connection is gone: drop its deferred requests."""
        connection = self._connections.pop(number, None)
        self._outgoing.pop(number, None)
        if connection is not None:
            self.muting.forget(connection)
        for token in connection.tokens if connection is not None else ():
            ticket = self._tickets.pop(token)
            if ticket.wait is not None:
                self._purgatory.drop(ticket.wait)

    def close(self, number: int, out: list[Effect]) -> None:
        """The broker closes the connection, after sending the answers that are ready."""
        parts = self._outgoing.pop(number, None)
        if parts:
            out.append(Send(number, parts))
        self.closed(number)

    def receive(self, number: int, frames: Iterable[memoryview], now: Time) -> None:
        """Serve the frames in order. After a violation or a failed request, the rest is dropped with the connection."""
        connection = self._connections.get(number)
        if connection is None:
            return
        for frame in frames:
            if connection.blocked is not None:
                connection.backlog.append(bytearray(frame))
                continue
            if connection.authentication is not None and not self._is_admitted(connection, frame, now):
                continue
            try:
                self._request(connection, frame, now)
            except ProtocolViolation as violation:
                self._refuse(connection, str(violation))
                return
            if connection.broken:
                return
        if connection.pipeline.waiting > PAUSE_ABOVE and not connection.paused:
            connection.paused = True
            self._effects.append(Pause(number, paused=True))

    def _is_admitted(self, connection: Connection, frame: memoryview, now: Time) -> bool:
        authentication = connection.authentication
        assert authentication is not None
        if not authentication.admits(frame, now):
            if authentication.refusal is not None:
                header = RequestHeader(AUTHENTICATE, 0, 0, None)
                ticket = Ticket(connection, connection.pipeline.open(), header.api_key, header.api_version, 0)
                self._answer_or_defer(ticket, authentication.refusal, self._context(connection, header, now))
                authentication.refusal = None
            return False
        connection.principal = authentication.principal or connection.principal
        return True

    def _refuse(self, connection: Connection, reason: str) -> None:
        fields = {"peer": connection.peer, "reason": reason}
        self._effects.append(Event("connection.refused", fields, level="warning"))
        self._effects.append(Close(connection.number, reason))

    def _request_failed(self, ticket: Ticket, error: Exception) -> None:
        """A request hit a bug, or a disk failure that its handler did not expect: then the folder goes offline, and the
        client retries elsewhere."""
        connection = ticket.connection
        if connection is not None:
            connection.broken = True
            self._effects.append(Close(connection.number, "a request failed"))
        else:
            self.own_answers.append((ticket.owner, ticket.token, None))
        if isinstance(error, DiskFailed):
            self._broker.disk_failed(error)
            return
        fields = {
            "api": APIS[ticket.key].name,
            "version": ticket.version,
            "peer": connection.peer if connection is not None else SELF.peer,
            "error": repr(error),
            "at": _location(error),
        }
        self._effects.append(Event("request.failed", fields, level="error"))

    def _request(self, connection: Connection, frame: memoryview, now: Time) -> None:
        """Most requests are answered at once, on a connection where nothing waits: they need no ticket and no slot."""
        header, request = connection.repeated.read(frame) or self._decode(connection, frame)
        key, version = header.api_key, header.api_version
        self.requests[key] += 1
        context = self._context(connection, header, now)
        if self._quotas.are_set and connection.listener != self._inter_broker:
            context.bill = self.billing.open(connection, header.client_id, len(frame))
            ticket = Ticket(connection, connection.pipeline.open(), key, version, header.correlation_id)
            ticket.bill = context.bill
            self._attempt(ticket, context, partial(self._call, key, request, context))
            return
        try:
            answer = self._call(key, request, context)
            if connection.pipeline.waiting or type(answer) in _DEFERRED:
                ticket = Ticket(connection, connection.pipeline.open(), key, version, header.correlation_id)
                self._answer_or_defer(ticket, answer, context)
            elif answer is not None:
                parts = encode_response(key, answerable(key, version), header.correlation_id, answer)
                self._outgoing.setdefault(connection.number, []).extend(parts)
        except _PROPAGATED:
            raise
        except Exception as error:  # noqa: BLE001  (a bug in one request must not affect other connections)
            self._request_failed(Ticket(connection, None, key, version, header.correlation_id), error)
        if context.effects:
            self._effects.extend(context.effects)

    def _decode(self, connection: Connection, frame: memoryview) -> tuple[RequestHeader, Any]:
        key, version = _KEY_AND_VERSION.unpack_from(frame) if len(frame) >= _KEY_AND_VERSION.size else (-1, -1)
        if not self._is_served(key, version, connection.listener):
            raise ProtocolViolation(f"API key {key} in version {version} is not served on {connection.listener}")
        header, request = decode_request(frame)
        connection.repeated.learn(frame, header, request)
        return header, request

    def _is_served(self, key: int, version: int, listener: str) -> bool:
        """ApiVersions is accepted in any version: its answer lists the supported ones."""
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
            None,
            connection.authentication,
            self._access(connection),
        )

    def _access(self, connection: Connection) -> Access | None:
        """What the connection's principal may do; None where it may do everything. A broker may: it forwards what
        clients requested, which their own broker authorized."""
        authorizer = self._authorizer
        if authorizer is None or connection is SELF:
            return None
        access = connection.access
        if access is None or access.principal != connection.principal:
            access = connection.access = authorizer.access(connection.principal, connection.peer)
        return None if connection.listener == self._inter_broker and access.is_broker else access

    def send_to_self(self, key: int, version: int, request: Any, owner: str, token: int, now: Time) -> None:
        """Serve a request of this broker to itself, without a socket."""
        header = RequestHeader(key, version, 0, None)
        context = self._context(SELF, header, now)
        context.listener = self._inter_broker
        ticket = Ticket(None, None, key, version, 0, owner, token)
        self._attempt(ticket, context, lambda: self._call(key, request, context))

    def _attempt(self, ticket: Ticket, context: Context, serve: Callable[[], Any]) -> None:
        try:
            self._answer_or_defer(ticket, serve(), context)
        except _PROPAGATED:
            raise
        except Exception as error:  # noqa: BLE001
            self._request_failed(ticket, error)
        self._effects.extend(context.effects)

    def _call(self, key: int, request: Any, context: Context) -> Any:
        """Every request is authorized here, and nowhere before."""
        handle = self._handlers.get(key)
        if handle is None:
            handle = self._handlers[key] = registry.handler(APIS[key])
        verdict = None if context.access is None else authorize(request, context)
        if verdict is None:
            return handle(request, context)
        if verdict.refusal is not None:
            return verdict.refusal
        answer = handle(verdict.request, context)
        if type(answer) in _DEFERRED:
            context.finish = verdict.finish
        elif answer is not None and verdict.finish is not None:
            verdict.finish(answer)
        return answer

    def _answer_or_defer(self, ticket: Ticket, answer: Any, context: Context) -> None:
        """Send the answer, or keep the ticket until there is one."""
        if isinstance(answer, _DEFERRED):
            self._tickets[context.token] = ticket
            if ticket.connection is not None:
                ticket.connection.tokens.add(context.token)
            ticket.wait = self._purgatory.add(context, answer) if isinstance(answer, Deferred) else None
            ticket.finish = context.finish
            if ticket.bill is not None:
                self.billing.wait(ticket.bill)
        else:
            self._answer(ticket, answer)
        self._update_blocked(ticket, context.blocks if type(answer) is Deferred else 0)

    def _update_blocked(self, ticket: Ticket, kept: int) -> None:
        """A request that blocks its connection: read nothing meanwhile, and serve afterwards what was read before."""
        connection = ticket.connection
        if connection is None:
            return
        if kept and connection.blocked is None:
            connection.blocked = ticket
            self._effects.append(Pause(connection.number, paused=True))
            self._effects.append(Retain(connection.number, kept))
        elif connection.blocked is ticket and not kept:
            connection.blocked = None
            self._effects.append(Retain(connection.number, 0))
            self._unblocked.append(connection)

    def _take_ticket(self, token: int) -> Ticket | None:
        ticket = self._tickets.pop(token, None)
        if ticket is not None and ticket.connection is not None:
            ticket.connection.tokens.discard(token)
        return ticket

    def resume(self, now: Time) -> None:
        """Continue the deferred requests whose conditions hold or whose deadlines have passed. Each may wait again."""
        for wait in self._purgatory.ready():
            context: Context | None = wait.context
            ticket = self._take_ticket(context.token) if context is not None else None
            if context is None or ticket is None:
                continue
            context.now = now
            context.effects = []
            context.blocks = 0
            self._attempt(ticket, context, partial(wait.deferred.resume, context, *wait.deferred.arguments))
        while self._unblocked:
            self._serve_backlog(self._unblocked.pop(0), now)

    def _serve_backlog(self, connection: Connection, now: Time) -> None:
        backlog, connection.backlog = connection.backlog, []
        if connection.number not in self._connections:
            return
        self.receive(connection.number, map(memoryview, backlog), now)
        if not (connection.blocked or connection.paused or connection.broken or connection in self.muting):
            self._effects.append(Pause(connection.number, paused=False))

    def reply(self, token: int, response: Any) -> None:
        """Answer a pending request: a coordinator or the controller has the response. Nothing happens if its connection
        was closed meanwhile."""
        ticket = self._take_ticket(token)
        if ticket is None:
            return
        try:
            self._answer(ticket, response)
        except _PROPAGATED:
            raise
        except Exception as error:  # noqa: BLE001
            self._request_failed(ticket, error)

    def _answer(self, ticket: Ticket, response: Any) -> None:
        """Put the answer into its slot. It leaves with all answers that are then next in request order."""
        connection = ticket.connection
        if ticket.finish is not None and response is not None:
            ticket.finish(response)
        if connection is None or ticket.slot is None:
            self.own_answers.append((ticket.owner, ticket.token, response))
            return
        if connection.number not in self._connections:
            return
        if ticket.bill is not None:
            parts = self.billing.answer(ticket, ticket.bill, connection, response, self._broker.now.mono)
        else:
            parts = ticket.encoded(response)
        ready = connection.pipeline.answer(ticket.slot, parts)
        if ready:
            self._outgoing.setdefault(connection.number, []).extend(ready)
        if connection.paused and connection.pipeline.waiting < PAUSE_ABOVE // 2:
            connection.paused = False
            if connection not in self.muting and connection.blocked is None:
                self._effects.append(Pause(connection.number, paused=False))

    def flush(self, out: list[Effect]) -> None:
        """One Send for each connection that has answers."""
        if self._outgoing:
            out += [Send(number, parts) for number, parts in self._outgoing.items()]
            self._outgoing.clear()


def _location(error: Exception) -> str:
    """File and line where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
