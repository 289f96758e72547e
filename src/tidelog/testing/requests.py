"""Requests of clients, as brokers receive them: which ones a fault strikes, and a log of the latest.

A `RequestFault` is shared by the event loops of all brokers; its counters are behind a lock.
"""

import time
from collections import deque
from collections.abc import Callable, Collection
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple, Self

from tidelog.errors import ErrorCode
from tidelog.testing.narrowing import Failure, Place
from tidelog.wire.codec import RequestHeader, decode_request

MOST_REQUESTS = 10_000
MOST_BYTES = 16 * 1024 * 1024
"""What is kept of the requests of one broker; older ones are forgotten."""


class Request:
    """One request of a client. `at` is the moment of its arrival, in seconds on the monotonic clock."""

    def __init__(self, broker: int, api: str, header: RequestHeader, frame: bytes) -> None:
        self.at = time.monotonic()
        self.broker = broker
        self.api = api
        self.version = header.api_version
        self.client_id = header.client_id
        self.size = len(frame)
        self._frame = frame

    def __repr__(self) -> str:
        return f"Request({self.api} {self.version} of {self.client_id!r} to broker {self.broker}, {self.size} bytes)"

    @cached_property
    def body(self) -> Any:
        """The decoded message, with Kafka's field names in snake case.

        >>> cluster.requests("Produce")[0].body.acks
        -1
        """
        return decode_request(self._frame)[1]


class RequestLog:
    """The latest requests that clients sent to one broker, in order of their arrival."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()
        self._bytes = 0

    def __repr__(self) -> str:
        return f"RequestLog({len(self._requests)} requests, {self._bytes} bytes)"

    def add(self, request: Request) -> None:
        self._requests.append(request)
        self._bytes += request.size
        while len(self._requests) > MOST_REQUESTS or self._bytes > MOST_BYTES:
            self._bytes -= self._requests.popleft().size

    def all(self) -> list[Request]:
        return list(self._requests.copy())

    def clear(self) -> None:
        self._requests, self._bytes = deque(), 0


class Fault:
    """An injected fault. It lasts until `remove`, the end of a `with` block, `Cluster.heal`, or its own last time.

    >>> with cluster.delay("Fetch", ms=200) as slow:
    ...     consumer.poll(1.0)
    >>> slow.struck
    1
    """

    def __init__(self, end: Callable[[], None], text: str) -> None:
        self.struck = 0
        """How many requests it has hit."""
        self._end: Callable[[], None] | None = end
        self._text = text

    def __repr__(self) -> str:
        return f"<{self._text}, struck {self.struck} times{'' if self._end else ', removed'}>"

    @property
    def is_active(self) -> bool:
        return self._end is not None

    def remove(self) -> None:
        """End the fault; nothing happens if it has ended."""
        end, self._end = self._end, None
        if end is not None:
            end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.remove()


class Action(NamedTuple):
    """What happens to a request: it waits `delay_s`; then it is answered with `code`, or by `answer`, or it is `lost`,
    before the broker has seen it or (`applied`) afterwards. Otherwise the broker serves it, except for what is in
    `failures`."""

    delay_s: float = 0.0
    code: ErrorCode | None = None
    failures: tuple[Failure, ...] = ()
    lost: bool = False
    applied: bool = False
    answer: Callable[[Request], Any] | None = None

    def before(self, newer: "Action") -> "Action":
        """This action and a newer one: delays add up, as do failures of topics and partitions, else the newer one
        counts."""
        delay_s = self.delay_s + newer.delay_s
        if newer.delay_s:
            return self._replace(delay_s=delay_s)
        return newer._replace(delay_s=delay_s, failures=self.failures + newer.failures if newer.failures else ())


SERVED = Action()


class Scope(NamedTuple):
    """Which requests a fault strikes: with a `place` those that name it. Of those that fit, the first `skipped` are
    spared, and `times` are struck (None: all)."""

    keys: frozenset[int]
    brokers: Collection[int] | None = None
    client_id: str | None = None
    place: Place | None = None
    skipped: int = 0
    times: int | None = None

    def fits(self, broker: int, header: RequestHeader) -> bool:
        return (
            header.api_key in self.keys
            and (self.brokers is None or broker in self.brokers)
            and (self.client_id is None or header.client_id == self.client_id)
        )


class RequestFault(Fault):
    """A fault of the requests in a scope."""

    def __init__(self, scope: Scope, action: Action, end: Callable[["RequestFault"], None], text: str) -> None:
        super().__init__(lambda: end(self), text)
        self.scope = scope
        self.action = action
        self._spared = 0
        self._lock = Lock()

    def is_near(self, broker: int, header: RequestHeader) -> bool:
        """Whether it still strikes such requests, or those of them that name its place."""
        is_spent = self.scope.times is not None and self.struck >= self.scope.times
        return self.is_active and not is_spent and self.scope.fits(broker, header)

    def strikes(self, broker: int, header: RequestHeader, names: Callable[[Place], bool]) -> bool:
        """Whether it strikes this request, which `names` a place or not; each one is to be asked about once."""
        place = self.scope.place
        if not self.is_near(broker, header) or (place is not None and not names(place)):
            return False
        with self._lock:
            times = self.scope.times
            if self._spared < self.scope.skipped:
                self._spared += 1
                return False
            if times is not None and self.struck >= times:
                return False
            self.struck += 1
            return True
