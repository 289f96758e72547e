"""Requests that take longer than a turn should: each is a generator that goes on for a few milliseconds in every turn
of the loop, in rotation with the others.

The generator yields where other inputs may be handled in between, or `PART` where it waits for the answer to a part of
the request, and returns what a handler returns. Decoding is its first step: until then only the frame is held.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from tidelog.alarms import Alarm
from tidelog.api.context import Context
from tidelog.api.parts import MOST_ENTRIES
from tidelog.errors import ErrorCode, ProtocolViolation
from tidelog.model import Time
from tidelog.node.connections import Work
from tidelog.wire.codec import RequestHeader, request_in_steps
from tidelog.wire.refusals import refuse
from tidelog.wire.source import STEP

PART = "part"
"""Yielded where the generator waits for the answer to a part of its request."""
OWNER = "large"
"""The owner of those answers."""
SLICE_NS = 4_000_000
STEPS_A_TURN = 16
"""Steps in a turn, of all large requests together: everything else is served in between."""
MOST_ACTIVE = 4
"""Requests that are decoded at a time. The others wait as frames, which need less memory."""
MOST_WAITING_BYTES = 64 * 1024 * 1024
"""Limit for the frames of all large requests together; a request above it is refused."""


class LargeRequests:
    """`advance` runs a work to its next yield, and says whether it waits for a part (`PART`)."""

    def __init__(self, stopwatch: Callable[[], int]) -> None:
        self.alarm = Alarm()
        self._stopwatch = stopwatch
        self._active: deque[Work] = deque()
        self._queue: deque[Work] = deque()
        self._waiting: dict[int, Work] = {}
        """By number."""
        self._held_bytes = 0
        self._numbers = 0

    def __repr__(self) -> str:
        return f"<LargeRequests {len(self._active)} active, {len(self._queue)} queued, {len(self._waiting)} waiting>"

    def begin(self, work: Work, now: Time) -> None:
        """Serve it from the next turn on. ProtocolViolation if too much waits already."""
        if self._held_bytes and self._held_bytes + work.size > MOST_WAITING_BYTES:
            raise ProtocolViolation("too many large requests at a time")
        self._held_bytes += work.size
        self._numbers += 1
        work.number = self._numbers
        self._queue.append(work)
        self.alarm.set(now.mono)

    def run(self, advance: Callable[[Work], Any], now: Time) -> None:
        """One turn."""
        begun = self._stopwatch()
        for _ in range(STEPS_A_TURN):
            while self._queue and len(self._active) < MOST_ACTIVE:
                self._active.append(self._queue.popleft())
            if not self._active:
                break
            work = self._active.popleft()
            if not work.ended:
                self._step(work, advance)
            if self._stopwatch() - begun > SLICE_NS:
                break
        self.alarm.set(now.mono if self._active or self._queue else None)

    def _step(self, work: Work, advance: Callable[[Work], Any]) -> None:
        begun = self._stopwatch()
        waits = advance(work)
        work.spent_ns += self._stopwatch() - begun
        if work.ended:
            return
        if waits:
            self._waiting[work.number] = work
        else:
            self._active.append(work)

    def part_answered(self, number: int, answer: Any, now: Time) -> None:
        work = self._waiting.pop(number, None)
        if work is not None:
            work.answer = answer
            self._queue.appendleft(work)
            self.alarm.set(now.mono)

    def end(self, work: Work) -> None:
        """It is answered, or its connection is closed."""
        if not work.ended:
            work.ended = True
            self._waiting.pop(work.number, None)
            self._held_bytes -= work.size


# How dispatch begins with one.


def decoded_at_once(frame: memoryview, most: int) -> tuple[RequestHeader, Any, int] | None:
    """The request and the number of its entries; None if there are more than `most`."""
    steps = request_in_steps(frame, MOST_ENTRIES)
    try:
        for _ in range(1 + most // STEP):
            next(steps)
    except StopIteration as done:
        decoded: tuple[RequestHeader, Any, int] = done.value
        return decoded if decoded[2] <= most else None
    return None


def refused_as_a_whole(request: Any, context: Context) -> Callable[[Any], Any] | None:
    """How each part is refused, where all of them together are too much."""
    from tidelog.api.topics.mutations import exceeds
    from tidelog.controller.commands.topics import TOO_MANY

    if not exceeds(request, context):
        return None
    return partial(refuse, code=ErrorCode.POLICY_VIOLATION, message=TOO_MANY)
