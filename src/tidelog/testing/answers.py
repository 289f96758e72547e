"""Answers of one connection: cut from what a broker sends, and made for requests that it did not see.

Clients expect answers in the order of their requests, so each request has a slot, and an answer leaves when all before
it have left. A slot that is never filled keeps its connection silent.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tidelog.effects import FileSlice, Part
from tidelog.errors import ErrorCode
from tidelog.node.connections import answerable
from tidelog.testing.narrowing import FETCH, OFFSET_FETCH, REASON
from tidelog.wire.codec import RequestHeader, decode_response, encode_response
from tidelog.wire.encoding import part_size
from tidelog.wire.refusals import Entries, entries_of, refuse, refused

MORE_ENTRIES: dict[int, Entries] = {OFFSET_FETCH: entries_of("groups", "groups", "group_id")}
"""Lists that `wire.refusals` leaves to handlers."""


class Slot:
    """The place of an answer. `awaited`: the broker will send it. `lost`: it is thrown away. `change`: what changes the
    broker's answer."""

    __slots__ = ("awaited", "change", "header", "lost", "parts")

    def __init__(
        self,
        header: RequestHeader,
        parts: Sequence[Part] | None,
        *,
        awaited: bool,
        lost: bool = False,
        change: Callable[[Any], None] | None = None,
    ) -> None:
        self.header = header
        self.parts = parts
        self.awaited = awaited
        self.lost = lost
        self.change = change


class Answers:
    """The slots of one connection, in the order of its requests."""

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque()

    def __repr__(self) -> str:
        return f"Answers({len(self._slots)} open)"

    def add(self, slot: Slot) -> None:
        self._slots.append(slot)

    def answered(self, parts: Iterable[Part]) -> list[Part]:
        """The broker sent these answers; returns what may leave now."""
        left: list[Part] = []
        for answer in split(parts):
            slot = next((slot for slot in self._slots if slot.awaited), None)
            if slot is None:
                left += answer
                continue
            slot.awaited = False
            if not slot.lost:
                slot.parts = answer if slot.change is None else changed(slot.header, answer, slot.change)
        return left + self.ready()

    def ready(self) -> list[Part]:
        """What may leave now; each answer once."""
        left: list[Part] = []
        while self._slots and self._slots[0].parts is not None:
            left += self._slots.popleft().parts or ()
        return left


def split(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """The answers in what a broker sends at once: each begins with its length, in the first of its parts."""
    answer: list[Part] = []
    left = 0
    for part in parts:
        if not left:
            assert not isinstance(part, FileSlice)
            left = 4 + int.from_bytes(part[:4], "big")
        answer.append(part)
        left -= part_size(part)
        if not left:
            yield answer
            answer = []
    assert not answer, f"{left} bytes of an answer are missing"


def refusal(header: RequestHeader, request: Any, code: ErrorCode) -> Sequence[Part]:
    """The answer to a request that fails with this code as a whole."""
    response = refuse(request, code, REASON)
    more = MORE_ENTRIES.get(header.api_key)
    if more is not None:
        getattr(response, more.answers).extend(refused(request, more, code, REASON))
    if header.api_key == FETCH and response.responses:
        response.error_code = ErrorCode.NONE  # there it concerns the session, not its partitions
    return encoded(header, response)


def encoded(header: RequestHeader, response: Any) -> Sequence[Part]:
    """The response as it is sent."""
    return encode_response(
        header.api_key, answerable(header.api_key, header.api_version), header.correlation_id, response
    )


def changed(header: RequestHeader, answer: Sequence[Part], change: Callable[[Any], None]) -> Sequence[Part]:
    """The broker's answer after this change."""
    frame = b"".join(
        part.file.read(part.position, part.length) if isinstance(part, FileSlice) else part for part in answer
    )
    version = answerable(header.api_key, header.api_version)
    _, response = decode_response(header.api_key, version, memoryview(frame)[4:])
    change(response)
    return encoded(header, response)
