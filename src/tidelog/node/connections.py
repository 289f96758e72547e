"""Open connections from clients and other brokers, and the requests on them that wait for their answers.

Answers leave a connection in the order of its requests, however they become ready: a client has no other way to tell
them apart.
"""

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.api.context import Bill, Context, Finish
from tidelog.api.registry import APIS
from tidelog.effects import FileSlice, Part
from tidelog.node.purgatory import Wait
from tidelog.node.security.authentication import Authentication
from tidelog.node.security.authorizer import PrincipalAccess
from tidelog.slices import ended
from tidelog.wire.codec import API_VERSIONS, encode_response, response_in_steps
from tidelog.wire.repeated import Repeated

Steps = Generator[Any, Any, Any]
"""How a large request is served (`large_requests`): it returns what a handler returns."""

PAUSE_ABOVE = 500
"""A connection with more unanswered requests is not read until there are less than half as many. Kafka limits them by
`queued.max.requests` for all connections together."""
PAUSE_ABOVE_BYTES = 4 * 1024 * 1024
"""The same for the bytes of answers that are ready and wait for one before them."""


class Slot:
    """A request's position in the order."""

    __slots__ = ("answered", "parts")

    def __init__(self) -> None:
        self.answered = False
        self.parts: Sequence[Part] | None = None


class Pipeline:
    """The requests of one connection that are not answered yet, in their order."""

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque()
        self.held_bytes = 0
        """Of answers that are ready and wait for one before them; slices of files are not in memory."""

    def __repr__(self) -> str:
        return f"<Pipeline waiting={len(self._slots)}>"

    @property
    def waiting(self) -> int:
        """Requests whose answers have not left, ready ones behind a slow one included."""
        return len(self._slots)

    def open(self) -> Slot:
        """A slot at the end, for the request that just arrived."""
        slot = Slot()
        self._slots.append(slot)
        return slot

    def answer(self, slot: Slot, parts: Sequence[Part] | None) -> list[Part]:
        """Answer the slot, with None if the request gets no answer; returns all parts that may be sent now."""
        assert not slot.answered, "a request is answered once"
        slot.answered = True
        slot.parts = parts
        slots = self._slots
        if slots[0] is not slot:
            self.held_bytes += _in_memory(parts)
            return []
        ready: list[Part] = list(slots.popleft().parts or ())
        while slots and slots[0].answered:
            held = slots.popleft().parts
            self.held_bytes -= _in_memory(held)
            ready.extend(held or ())
        return ready


def _in_memory(parts: Sequence[Part] | None) -> int:
    return sum(len(part) for part in parts or () if not isinstance(part, FileSlice))


@dataclass(slots=True, eq=False)
class Connection:
    """An inbound connection. `paused`: nothing is read from it, because too many answers are
    outstanding. `broken`: a request on it failed; it is being closed."""

    number: int
    listener: str
    peer: str
    principal: str
    pipeline: Pipeline = field(default_factory=Pipeline)
    repeated: Repeated = field(default_factory=Repeated)
    paused: bool = False
    broken: bool = False
    authentication: Authentication | None = None
    """Only on a listener with SASL."""
    access: PrincipalAccess | None = None
    """Of its principal; only with an authorizer."""
    blocked: "Ticket | None" = None
    """A request that waits and must be answered before the next one is served."""
    tokens: set[int] = field(default_factory=set)
    """Of its requests that are not answered yet."""
    works: "list[Work]" = field(default_factory=list)
    """Its large requests; they, too, must be answered before the next one is served."""

    @property
    def is_full(self) -> bool:
        """Whether no more of its requests are served for now."""
        return self._waits or self.pipeline.waiting > PAUSE_ABOVE or self.pipeline.held_bytes > PAUSE_ABOVE_BYTES

    @property
    def has_room(self) -> bool:
        """Whether it is read again after that."""
        pipeline = self.pipeline
        is_short = pipeline.waiting < PAUSE_ABOVE // 2 and pipeline.held_bytes < PAUSE_ABOVE_BYTES // 2
        return is_short and not self._waits

    @property
    def _waits(self) -> bool:
        return self.blocked is not None or bool(self.works)


@dataclass(slots=True)
class Ticket:
    """A request whose answer is deferred: its connection, slot and format. `connection` is None for the broker's own
    requests to itself, which are answered to `owner` by `token`."""

    connection: Connection | None
    slot: Slot | None
    key: int
    version: int
    correlation_id: int
    owner: str = ""
    token: int = 0
    wait: Wait | None = None
    bill: Bill | None = None
    finish: Finish | None = None
    """Completes the answer."""
    parts: Sequence[Part] | None = None
    """The answer, if it is encoded already."""

    def encoded(self, response: Any) -> Sequence[Part] | None:
        """The encoded answer; None if the request wants none."""
        if response is None or self.parts is not None:
            return self.parts
        return encode_response(self.key, answerable(self.key, self.version), self.correlation_id, response)


@dataclass(slots=True, eq=False)
class Work:
    """One large request. `context` is known once it is decoded; `answer` is that to the part it waited for."""

    ticket: Ticket
    steps: Steps
    size: int
    context: Context | None = None
    number: int = 0
    answer: Any = None
    spent_ns: int = 0
    ended: bool = False


def answerable(key: int, version: int) -> int:
    """ApiVersions in a version that is not known is answered in its first (KIP-511)."""
    return version if key != API_VERSIONS or 0 <= version <= APIS[API_VERSIONS].high else 0


# Answers on their way out.


class Encoded(NamedTuple):
    """A response, and the parts to be written."""

    parts: list[Part]
    response: Any


def encoding(ticket: Ticket, response: Any, finish: Finish | None) -> Steps:
    """The response, completed and encoded."""
    response = yield from completed(response, finish)
    version = answerable(ticket.key, ticket.version)
    found = yield from response_in_steps(ticket.key, version, ticket.correlation_id, response)
    return Encoded(found, response)


def completed(response: Any, finish: Finish | None) -> Steps:
    """The response, which may be made in steps, as may be what `finish` does with it."""
    response = yield from ended(response)
    if finish is not None:
        yield from ended(finish(response))
    return response
