"""Decodes frames, calls the handlers of their APIs, and sends the answers in request order on each connection.

A request takes one of two paths. If its handler returns the answer and no earlier request of the connection waits, the
answer is encoded at once. Otherwise a `Ticket` keeps its slot in the connection's order until `resume` or `reply`.

A protocol violation, or a bug in serving one request, closes that connection and writes one log line. A failed
assertion stops the process, because then the state itself may be wrong.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import count
from struct import Struct
from types import GeneratorType
from typing import Any

from tidelog.alarms import Alarm
from tidelog.api import registry
from tidelog.api.authorization import authorize
from tidelog.api.context import Access, Broker, Context, Pending
from tidelog.api.parts import MAY_BE_LARGE, MOST_ENTRIES, at_once, merge, part, parts, splitting
from tidelog.api.registry import APIS, CONTROLLER_APIS, OF_QUORUM, Api
from tidelog.effects import Close, Deferred, Effect, Event, Part, Pause, PutBack, Retain, Send
from tidelog.errors import DiskFailed, ErrorCode, ProtocolViolation
from tidelog.model import Time
from tidelog.node.client_throttling import Billing, Muting
from tidelog.node.connections import Connection, Encoded, Steps, Ticket, Work, answerable, completed, encoding
from tidelog.node.event_log import LineLimit
from tidelog.node.large_requests import OWNER, PART, LargeRequests, decoded_at_once, refused_as_a_whole
from tidelog.node.peers import is_id_of_broker
from tidelog.node.purgatory import Purgatory
from tidelog.node.security.authentication import AUTHENTICATE, Authentication
from tidelog.node.security.authorizer import Authorizer
from tidelog.security.sasl import SaslListener
from tidelog.slices import begun, ended
from tidelog.wire.codec import (
    API_VERSIONS,
    RequestHeader,
    decode_header,
    decode_request,
    encode_response,
    has_records,
    request_in_steps,
)
from tidelog.wire.messages import SCHEMAS

WORK_A_TURN = 500
"""Entries in the requests that one input serves, weighted by their cost; the other requests wait for a later turn."""
SMALL_BYTES = 256
"""A request up to this size has few entries: they are not counted."""
LARGEST_BYTES = 16 * 1024 * 1024
"""Of a request from a client, unless it is a Produce of few partitions."""

_START = Struct(">hhi")
"""Key, version and correlation ID."""
_DEFERRED = (Deferred, Pending, GeneratorType)
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
        *,
        is_shared: bool,
        controllers: Collection[str] = (),
    ) -> None:
        """`listener` is the inter-broker listener, which clients may use, too, if it `is_shared`; `sasl` are the
        listeners with SASL, by name; on the `controllers` listeners the APIs of the metadata quorum are served. Without
        an authorizer everything is allowed to everybody."""
        self._broker = broker
        self._purgatory = purgatory
        self._effects = effects
        self._inter_broker = listener
        self._is_shared = is_shared
        self._controllers = controllers
        self._quotas = broker.quotas
        self.muting = Muting(effects)
        self.billing = Billing(broker.quotas, self.muting)
        self.large = LargeRequests(broker.quotas.stopwatch)
        self._sasl = sasl
        self._authorizer = authorizer
        self._handlers: dict[tuple[int, bool], Callable[[Any, Context], Any]] = {}
        """By API key, and whether on a controller's listener; a handler's module is imported at its first request."""
        self._connections: dict[int, Connection] = {}
        self._tickets: dict[int, Ticket] = {}
        """Deferred requests by token."""
        self._tokens = count(1)
        self._failure_lines = LineLimit()
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
        for work in connection.works if connection is not None else ():
            self.large.end(work)
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

    def receive(self, number: int, frames: Sequence[memoryview], now: Time) -> None:
        """Serve the frames in order, as many as fit into a turn. After a violation or a failed request, the rest is
        dropped with the connection."""
        connection = self._connections.get(number)
        if connection is None:
            return
        work = 0
        for index, frame in enumerate(frames):
            if work >= WORK_A_TURN or connection.is_full:
                self._effects.append(PutBack(number, frames[index:]))
                break
            if connection.authentication is not None and not self._is_admitted(connection, frame, now):
                continue
            try:
                work += self._request(connection, frame, now)
            except ProtocolViolation as violation:
                self._refuse(connection, str(violation))
                return
            if connection.broken:
                return
        self._update_pause(connection)

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
        served = connection if connection is not None else SELF
        if not self._failure_lines.allows(f"{served.principal} {served.peer}", self._broker.now.mono):
            return
        fields = {
            "api": SCHEMAS[ticket.key].name,
            "version": ticket.version,
            "peer": served.peer,
            "error": repr(error),
            "at": _location(error),
            **self._failure_lines.note_omitted(),
        }
        self._effects.append(Event("request.failed", fields, level="error"))

    def _request(self, connection: Connection, frame: memoryview, now: Time) -> int:
        """Serve the request, or begin to. Returns how much work it has, in entries."""
        known = connection.repeated.read(frame)
        if known is not None:
            self._serve(connection, *known, len(frame), now)
            return 1
        key, version, correlation_id = _START.unpack_from(frame) if len(frame) >= _START.size else (-1, -1, 0)
        if not self._is_served(key, version, connection.listener):
            raise ProtocolViolation(f"API key {key} in version {version} is not served on {connection.listener}")
        size = len(frame)
        if size <= SMALL_BYTES or self._is_large_of_broker(connection, frame) or key == API_VERSIONS:
            header, request = decode_request(frame)
            work = 1 + size // 64
        else:
            most = at_once(key)
            decoded = None if size > LARGEST_BYTES and not has_records(key) else decoded_at_once(frame, most)
            if decoded is None:
                if size > LARGEST_BYTES:
                    raise ProtocolViolation(f"a request of {size} bytes that is not a few batches of records")
                ticket = Ticket(connection, connection.pipeline.open(), key, version, correlation_id)
                # A frame is good for its turn only, and its copy is decoded once more.
                self._begin_large(ticket, request_in_steps(bytes(frame), MOST_ENTRIES), size, now)
                return WORK_A_TURN
            header, request, entries = decoded
            work = 1 + entries * WORK_A_TURN // most
        connection.repeated.learn(frame, header, request)
        self._serve(connection, header, request, size, now)
        return work

    def _serve(self, connection: Connection, header: RequestHeader, request: Any, size: int, now: Time) -> None:
        """Most requests are answered at once, on a connection where nothing waits: they need no ticket and no slot."""
        key, version = header.api_key, header.api_version
        self.requests[key] += 1
        context = self._context(connection, header, now)
        if self._quotas.are_set and not context.from_broker:
            context.bill = self.billing.open(connection, header.client_id, size)
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

    def _is_served(self, key: int, version: int, listener: str) -> bool:
        """ApiVersions is accepted in any version: its answer lists the supported ones."""
        api = self._apis(listener).get(key)
        if api is None or (api.caller == "broker" and listener != self._inter_broker):
            return False
        if api.caller == "quorum" and self._broker.quorum is None:
            return False
        return api.low <= version <= api.high or key == API_VERSIONS

    def _apis(self, listener: str) -> Mapping[int, Api]:
        return CONTROLLER_APIS if listener in self._controllers else APIS

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
            self._access(connection, header.client_id, header.api_key),
            from_broker=self._sends_as_broker(connection, header.client_id),
        )

    def _is_large_of_broker(self, connection: Connection, frame: memoryview) -> bool:
        """Whether a broker sent this large frame, which is then served at once."""
        if connection.listener != self._inter_broker:
            return False  # the headers of clients' large batches are decoded once
        return self._sends_as_broker(connection, decode_header(frame).client_id)

    def _sends_as_broker(self, connection: Connection, client_id: str | None) -> bool:
        """`Context.from_broker`. Clients that use the inter-broker listener, too, have other names; with an authorizer
        a name is not enough."""
        if connection.listener in self._controllers:
            return self._access(connection, client_id) is None
        if connection.listener != self._inter_broker:
            return False
        return not self._is_shared or (is_id_of_broker(client_id) and self._access(connection, client_id) is None)

    def _access(self, connection: Connection, client_id: str | None, key: int | None = None) -> Access | None:
        """What the connection's principal may do; None where it may do everything. A broker may: it forwards what
        clients requested, which their own broker authorized. On a listener that clients use, too, only its client ID
        tells such a request from one that its principal makes itself. What is requested of the quorum is not
        forwarded, and is always authorized, as Kafka's controllers do it."""
        authorizer = self._authorizer
        if authorizer is None or connection is SELF:
            return None
        access = connection.access
        if access is None or access.principal != connection.principal:
            access = connection.access = authorizer.access(connection.principal, connection.peer)
        of_controller = connection.listener in self._controllers
        if not access.is_broker or not (of_controller or connection.listener == self._inter_broker):
            return access
        if (of_controller or self._is_shared) and not is_id_of_broker(client_id):
            return access
        return access if of_controller and key in OF_QUORUM else None

    def send_to_self(self, key: int, version: int, request: Any, owner: str, token: int, now: Time) -> None:
        """Serve a request of this broker to itself, without a socket."""
        header = RequestHeader(key, version, 0, None)
        context = self._context(SELF, header, now)
        context.listener = self._inter_broker
        context.from_broker = True
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
        is_to_controller = context.listener in self._controllers
        handle = self._handlers.get((key, is_to_controller))
        if handle is None:
            api = self._apis(context.listener)[key]
            handle = self._handlers[key, is_to_controller] = registry.handler(api)
        verdict = None if context.access is None else authorize(request, context, of_controller=is_to_controller)
        if verdict is None:
            return begun(handle(request, context))
        if verdict.refusal is not None:
            return verdict.refusal
        answer = begun(handle(verdict.request, context))
        if type(answer) in _DEFERRED:
            context.finish = verdict.finish
        elif answer is not None and verdict.finish is not None:
            return begun(completed(answer, verdict.finish))
        return answer

    def _answer_or_defer(self, ticket: Ticket, answer: Any, context: Context) -> None:
        """Send the answer, or keep the ticket until there is one."""
        if type(answer) is GeneratorType:
            ticket.finish = context.finish
            if ticket.bill is not None:
                self.billing.wait(ticket.bill)
            self._begin(Work(ticket, answer, 0, context), context.now)
        elif isinstance(answer, _DEFERRED):
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
        """A request that blocks its connection: nothing else of it is served meanwhile."""
        connection = ticket.connection
        if connection is None:
            return
        if kept and connection.blocked is None:
            connection.blocked = ticket
            self._effects.append(Retain(connection.number, kept))
            self._update_pause(connection)
        elif connection.blocked is ticket and not kept:
            connection.blocked = None
            self._effects.append(Retain(connection.number, 0))
            self._update_pause(connection)

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
            self._attempt(ticket, context, partial(_resumed, wait.deferred, context))

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
        if type(response) is GeneratorType or (ticket.finish is not None and response is not None):
            response = begun(completed(response, ticket.finish))
            ticket.finish = None
        if ticket.key in MAY_BE_LARGE and ticket.slot is not None and ticket.parts is None and response is not None:
            response = begun(encoding(ticket, response, None))
        if isinstance(response, Encoded):
            ticket.parts, response = response
        if type(response) is GeneratorType:
            self._begin(Work(ticket, response, 0), self._broker.now)
            if connection is not None:
                self._update_pause(connection)
            return
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
        self._update_pause(connection)

    def _update_pause(self, connection: Connection) -> None:
        """Read no more from a connection while too much of it is not answered."""
        if not connection.paused and connection.is_full:
            connection.paused = True
            self._effects.append(Pause(connection.number, paused=True))
        elif connection.paused and connection.has_room:
            connection.paused = False
            if connection not in self.muting and connection.number in self._connections:
                self._effects.append(Pause(connection.number, paused=False))

    # Large requests.

    def _begin_large(self, ticket: Ticket, decoding: Steps, size: int, now: Time) -> None:
        work = Work(ticket, decoding, size)
        work.steps = self._large_request(work, decoding)
        self.requests[ticket.key] += 1
        self._begin(work, now)
        assert ticket.connection is not None
        self._effects.append(Retain(ticket.connection.number, size))

    def _begin(self, work: Work, now: Time) -> None:
        self.large.begin(work, now)
        if work.ticket.connection is not None:
            work.ticket.connection.works.append(work)

    def _large_request(self, work: Work, decoding: Steps) -> Steps:
        """Decode the request, serve it in parts if it can be split, and return its answer."""
        header, request, entries = yield from decoding
        ticket, connection = work.ticket, work.ticket.connection
        assert connection is not None
        context = work.context = self._context(connection, header, self._broker.now)
        if self._quotas.are_set and not context.from_broker:
            context.bill = ticket.bill = self.billing.open(connection, header.client_id, work.size)
        split = splitting(request, entries)
        if split is None:
            return (yield from ended(self._call(ticket.key, request, context)))
        whole = None
        refuse_all = refused_as_a_whole(request, context)
        for paths in (yield from parts(request, split)):
            piece = part(request, split, paths)
            answer = refuse_all(piece) if refuse_all is not None else (yield from self._part(work, header, piece))
            if whole is None:
                whole = answer
            elif answer is not None:
                merge(whole, answer, split)
            if getattr(answer, "error_code", ErrorCode.NONE):
                break
            yield
        return whole

    def _part(self, work: Work, header: RequestHeader, request: Any) -> Steps:
        ticket = work.ticket
        assert ticket.connection is not None
        context = self._context(ticket.connection, header, self._broker.now)
        context.bill = ticket.bill
        answer = self._call(ticket.key, request, context)
        self._effects.extend(context.effects)
        if type(answer) not in _DEFERRED:
            return answer
        own = Ticket(None, None, ticket.key, ticket.version, 0, OWNER, work.number)
        self._answer_or_defer(own, answer, context)
        answer = yield PART
        if ticket.bill is not None and ticket.bill.finish is not None:
            finish, ticket.bill.finish = ticket.bill.finish, None
            finish(answer)
        return answer

    @property
    def alarm(self) -> Alarm:
        return self.large.alarm

    def wake(self, now: Time) -> None:
        """Go on with the large requests."""
        self.large.run(self._advance, now)

    def _advance(self, work: Work) -> Any:
        """Run it to its next yield, which is returned, or to its end."""
        ticket = work.ticket
        try:
            answer, work.answer = work.answer, None
            return work.steps.send(answer)
        except StopIteration as done:
            self._served(work, done.value)
        except ProtocolViolation as violation:
            assert ticket.connection is not None
            self._end(work)
            self._refuse(ticket.connection, str(violation))
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001
            self._end(work)
            self._request_failed(ticket, error)
        return None

    def _served(self, work: Work, answer: Any) -> None:
        """The answer, which is then encoded in steps, or its encoded parts."""
        ticket, context = work.ticket, work.context
        if context is not None:
            self._effects.extend(context.effects)
            context.effects = []
        if isinstance(answer, Encoded) or answer is None or type(answer) in _DEFERRED or ticket.slot is None:
            self._end(work)
            if isinstance(answer, Encoded):
                ticket.parts, answer = answer
            if ticket.bill is not None:
                ticket.bill.spent_ns = max(ticket.bill.spent_ns, 0) + work.spent_ns
            if context is not None:
                self._answer_or_defer(ticket, answer, context)
            else:
                self._answer(ticket, answer)
            if ticket.connection is not None:
                self._update_pause(ticket.connection)
            return
        finish = ticket.finish or (context.finish if context is not None else None)
        ticket.finish = None
        if context is not None:
            context.finish = None
        work.steps = encoding(ticket, answer, finish)

    def _end(self, work: Work) -> None:
        self.large.end(work)
        connection = work.ticket.connection
        if connection is not None:
            connection.works.remove(work)
            if work.size and connection.number in self._connections:
                self._effects.append(Retain(connection.number, 0))

    def part_answered(self, number: int, answer: Any) -> None:
        self.large.part_answered(number, answer, self._broker.now)

    def flush(self, out: list[Effect]) -> None:
        """One Send for each connection that has answers."""
        if self._outgoing:
            out += [Send(number, parts) for number, parts in self._outgoing.items()]
            self._outgoing.clear()


def _resumed(deferred: Deferred, context: Context) -> Any:
    return begun(deferred.resume(context, *deferred.arguments))


def _location(error: Exception) -> str:
    """File and line where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
