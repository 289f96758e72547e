"""How a client reaches a coordinator: `CoordinatorFinder` looks it up; `CoordinatorRequest` is retried until answered.

`CoordinatorRequests` sends requests one at a time and keeps their order: what a transaction coordinator receives later
depends on what it received before.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidelog.client.backoff import Backoff
from tidelog.client.cluster import Cluster
from tidelog.client.link import Answer
from tidelog.client.network import COORDINATOR_LINKS
from tidelog.client.results import code_of
from tidelog.errors import RETRIABLE, ErrorCode
from tidelog.model import Time
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
TRANSACTION = 1

LOST = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Errors after which the coordinator must be looked up again."""


class CoordinatorFinder:
    """The coordinator of one key, looked up when first needed and again when it moves. `refused` is set if the lookup
    failed for good."""

    def __init__(self, cluster: Cluster, key: str, key_type: int = GROUP) -> None:
        self._cluster = cluster
        self._key = key
        self._key_type = key_type
        self._node: int | None = None
        self._is_looking_up = False
        self._backoff = cluster.backoff()
        self.retry_at = 0
        self.refused = ErrorCode.NONE

    def __repr__(self) -> str:
        return f"<CoordinatorFinder {self._key!r} node={self._node}>"

    def node(self, now: Time) -> int | None:
        """The coordinator's node; None while it is looked up."""
        if self._node is None and not self._is_looking_up and now.mono >= self.retry_at and not self.refused:
            self._look_up(now)
        return self._node

    @property
    def is_known(self) -> bool:
        return self._node is not None

    @property
    def deadline(self) -> int | None:
        return self.retry_at if self._node is None and not self._is_looking_up and not self.refused else None

    def lost(self, now: Time) -> None:
        """The coordinator is not available at the known node."""
        if self._node is not None:
            self._node = None
            self.retry_at = now.mono + self._backoff.next_ms()

    def handle_error(self, code: ErrorCode, fault: ErrorCode, now: Time) -> bool:
        """Returns whether to retry the request; looks the coordinator up again if the error means that it may have
        moved."""
        if (fault and fault is not ErrorCode.UNSUPPORTED_VERSION) or code in LOST:
            self.lost(now)
            return True
        return code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def _look_up(self, now: Time) -> None:
        node = self._cluster.network.any_node(now.mono)
        if node is None:
            self.retry_at = self._cluster.network.next_usable_at
            return
        self._is_looking_up = True
        request = FindCoordinatorRequest(key=self._key, key_type=self._key_type, coordinator_keys=[self._key])
        self._cluster.send_request(node, request, self._coordinator_found, now)

    def _coordinator_found(self, answer: Answer, now: Time) -> None:
        self._is_looking_up = False
        code = answer.fault
        if answer.response is not None:
            code, node, host, port = coordinator_from(answer.response)
            if not code:
                self._node = COORDINATOR_LINKS + node
                self._cluster.network.add(self._node, host, port)
                self._backoff.succeeded()
                return
            if code not in RETRIABLE:
                self.refused = code
        self.retry_at = now.mono + self._backoff.next_ms()


def coordinator_from(response: FindCoordinatorResponse) -> tuple[ErrorCode, int, str, int]:
    """(error, broker ID, host, port) of the one coordinator that was requested, in all versions."""
    found = response.coordinators[0] if response.coordinators else response
    return code_of(found.error_code), found.node_id, found.host, found.port


@dataclass(slots=True, eq=False, kw_only=True)
class CoordinatorRequest:
    """One request, waiting for its first or next try, or in flight. `last_error` is the error of the last try.
    Monotonic milliseconds."""

    request: Any
    deadline: int
    newest: int
    backoff: Backoff
    retry_at: int = 0
    is_in_flight: bool = False
    last_error: ErrorCode = ErrorCode.REQUEST_TIMED_OUT

    def send(
        self, cluster: Cluster, finder: CoordinatorFinder, answered: Callable[[Answer, Time], None], now: Time
    ) -> None:
        """Send it if the coordinator is known; otherwise it stays waiting while the finder looks the coordinator up."""
        node = finder.node(now)
        self.retry_at = 0
        if node is None:
            return
        self.is_in_flight = True
        timeout_ms = min(cluster.options.request_timeout_ms, self.deadline - now.mono)
        cluster.send_request(node, self.request, answered, now, timeout_ms=timeout_ms, newest=self.newest)

    def retry_later(self, code: ErrorCode, now: Time) -> None:
        self.last_error = code
        self.retry_at = now.mono + self.backoff.next_ms()


Finish = Callable[[ErrorCode, Any, Time], None]
"""Receives the final error code, and the response if there is one."""


@dataclass(slots=True, eq=False, kw_only=True)
class _QueuedRequest(CoordinatorRequest):
    code_in: Callable[[Any], ErrorCode]
    finish: Finish


class CoordinatorRequests:
    """The queue of requests to the coordinator of one key."""

    def __init__(self, cluster: Cluster, finder: CoordinatorFinder) -> None:
        self._cluster = cluster
        self.finder = finder
        self._queue: deque[_QueuedRequest] = deque()

    def __repr__(self) -> str:
        return f"<CoordinatorRequests {len(self._queue)} to {self.finder!r}>"

    @property
    def is_idle(self) -> bool:
        return not self._queue

    def submit(
        self,
        request: Any,
        code_in: Callable[[Any], ErrorCode],
        finish: Finish,
        now: Time,
        *,
        timeout_ms: int,
        newest: int = 32767,
    ) -> None:
        """`code_in` returns the error code of a response; a retriable one is retried."""
        call = _QueuedRequest(
            request=request,
            deadline=now.mono + timeout_ms,
            newest=newest,
            backoff=self._cluster.backoff(),
            code_in=code_in,
            finish=finish,
        )
        self._queue.append(call)

    def advance(self, now: Time) -> None:
        while self._queue and not self._queue[0].is_in_flight:
            call = self._queue[0]
            if now.mono >= call.deadline or self.finder.refused:
                self._end(call, self.finder.refused or call.last_error, None, now)
            elif now.mono >= call.retry_at:
                call.send(self._cluster, self.finder, partial(self._answered, call), now)
                return
            else:
                return

    @property
    def deadline(self) -> int | None:
        """When `advance` has something to do even if nothing happens before."""
        if not self._queue or self._queue[0].is_in_flight:
            return None
        call = self._queue[0]
        if call.retry_at:
            return min(call.deadline, call.retry_at)
        found = self.finder.deadline
        return call.deadline if found is None else min(call.deadline, found)

    def _answered(self, call: _QueuedRequest, answer: Answer, now: Time) -> None:
        call.is_in_flight = False
        code = answer.fault or call.code_in(answer.response)
        is_retried = self.finder.handle_error(code, answer.fault, now) or (code in RETRIABLE and not answer.fault)
        if is_retried and answer.fault is not ErrorCode.UNSUPPORTED_VERSION:
            call.retry_later(code, now)
        else:
            self._end(call, code, answer.response, now)

    def _end(self, call: _QueuedRequest, code: ErrorCode, response: Any, now: Time) -> None:
        assert self._queue[0] is call, call
        self._queue.popleft()
        call.finish(code, response, now)
