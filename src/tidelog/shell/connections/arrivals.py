"""Requests that are arriving: how much memory they share, and how long they may take.

- All of them share a budget, `queued.max.request.bytes`. A request for whose next bytes there is no room is starved:
  its connection is not read until there is. Small requests are not affected, since they need no buffer of their own.
- Requests that wait for a thread (`retain`) count, too.
- The oldest request is never starved, so that one always goes on: no more is used than the budget and the largest
  request.
- A request of some age must have kept up a rate (`Pace`), or its connection is closed. Time in which the broker itself
  did not read does not count. While others are starved, the rate is higher, and it counts for starved ones that hold
  memory, too: a client that leaves requests unfinished cannot lock others out.
"""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.shell.connections.connection import Connection
from tidelog.wire.frames import TRUSTED_BYTES, UNLIMITED, Buffers

CHECK_S = 1.0
LATE_MS = 3_000
"""A check that comes so late shows that the process stood still: nobody is to blame for that time."""


class Pace(NamedTuple):
    """A request must have `rate` bytes a second, counted from `grace_ms` after its first byte."""

    grace_ms: int
    rate: int

    def demands(self, age_ms: int) -> float:
        """How many bytes must have come by then."""
        return (age_ms - self.grace_ms) * self.rate / 1000


USUAL = Pace(30_000, 4 * 1024)
SCARCE = Pace(10_000, 256 * 1024)
"""While memory is short."""


class Arrivals:
    """`resume` is called when a connection may be read again, `close` with the reason for one that is too slow."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: BrokerConfig,
        resume: Callable[[Connection], None],
        close: Callable[[Connection, str], None],
    ) -> None:
        self.buffers = Buffers(budget=budget_of(config))
        self._loop = loop
        self._resume = resume
        self._close = close
        self._incomplete: dict[Connection, None] = {}
        """In the order in which their requests began."""
        self._starved: dict[Connection, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._checked_at = 0

    def __repr__(self) -> str:
        return f"Arrivals({len(self._incomplete)} incomplete, {len(self._starved)} starved, {self.buffers.used} bytes)"

    @property
    def waiting(self) -> int:
        """How many connections are not read because of the budget."""
        return len(self._starved)

    def received(self, connection: Connection, now: int, *, completed: bool) -> None:
        """Bytes have come of a request that is incomplete, or was before. `completed`: a request is whole."""
        reader = connection.reader
        if completed or not connection.began:
            self._incomplete.pop(connection, None)
            connection.began = 0
            if not reader.is_between_frames:
                connection.began = now
                self._incomplete[connection] = None
                self._watch()
        if reader.is_starved:
            self._starved[connection] = None
            connection.starved = True
            self._resume(connection)
        if self._starved:
            self._feed()

    def recycle(self, connection: Connection) -> None:
        """What was delivered last is not needed any more."""
        connection.reader.recycle()
        if self._starved:
            self._feed()

    def retain(self, connection: Connection, size: int) -> None:
        """The request that came last is not answered yet, and these bytes of it are kept until it is."""
        self.buffers.used += size - connection.retained
        connection.retained = size
        if self._starved and not size:
            self._feed()

    def ended(self, connection: Connection) -> None:
        """The connection is closed."""
        connection.reader.release()
        self.buffers.used -= connection.retained
        connection.retained = 0
        self._incomplete.pop(connection, None)
        self._starved.pop(connection, None)
        if self._starved:
            self._feed()

    def _feed(self) -> None:
        """Let the starved ones go on as far as there is room. The oldest that may be read needs none."""
        oldest = next((each for each in self._incomplete if not (each.paused or each.congested or each.closing)), None)
        if oldest is not None and oldest.starved:
            oldest.reader.grow(insist=True)
            self._sate(oldest)
        while self._starved:
            connection = next(iter(self._starved))
            if not connection.reader.grow():
                return
            self._sate(connection)

    def _sate(self, connection: Connection) -> None:
        del self._starved[connection]
        connection.starved = False
        self._resume(connection)

    def _watch(self) -> None:
        if self._timer is None:
            self._checked_at = _now_ms()
            self._timer = self._loop.call_later(CHECK_S, self._check)

    def _check(self) -> None:
        """Close what does not keep up."""
        self._timer = None
        now = _now_ms()
        elapsed_ms = now - self._checked_at
        is_late = elapsed_ms > LATE_MS
        pace = SCARCE if self._starved else USUAL
        for connection in list(self._incomplete):
            age_ms, arrived = now - connection.began, connection.reader.arrived
            if is_late or _waits_for_us(connection):
                connection.began += elapsed_ms
            elif arrived < pace.demands(age_ms):
                self._close(connection, f"{arrived} bytes of a request came in {age_ms} ms")
        if self._starved:
            self._feed()
        if self._incomplete:
            self._watch()


def _waits_for_us(connection: Connection) -> bool:
    """Whether the broker is why nothing comes. A request that is starved counts only if it holds little itself."""
    is_starved = connection.starved and connection.reader.held <= TRUSTED_BYTES
    return connection.paused or bool(connection.held) or is_starved


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def budget_of(config: BrokerConfig) -> int:
    """Bytes of all requests that are arriving; never less than the largest request."""
    if config.queued_max_request_bytes < 0:
        return UNLIMITED
    return max(config.queued_max_request_bytes, config.socket_request_max_bytes)
