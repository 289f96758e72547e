"""A request to whoever coordinates a key, tried again until it is answered for good or its time is over."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidelog.client.backoff import Backoff
from tidelog.client.cluster import Cluster
from tidelog.client.group.coordinator import CoordinatorFinder
from tidelog.client.link import Answer
from tidelog.errors import ErrorCode
from tidelog.model import Time


@dataclass(slots=True, eq=False, kw_only=True)
class Attempt:
    """It waits to be sent (again), or is on its way; `last` is what it failed with before. Monotonic milliseconds."""

    request: Any
    deadline: int
    newest: int
    backoff: Backoff
    retry_at: int = 0
    is_out: bool = False
    last: ErrorCode = ErrorCode.REQUEST_TIMED_OUT

    def send(
        self, cluster: Cluster, finder: CoordinatorFinder, answered: Callable[[Answer, Time], None], now: Time
    ) -> None:
        """It waits on where the coordinator is not known yet; the finder is looking for it then."""
        node = finder.node(now)
        self.retry_at = 0
        if node is None:
            return
        self.is_out = True
        timeout_ms = min(cluster.options.request_timeout_ms, self.deadline - now.mono)
        cluster.ask(node, self.request, answered, now, timeout_ms=timeout_ms, newest=self.newest)

    def again(self, code: ErrorCode, now: Time) -> None:
        self.last = code
        self.retry_at = now.mono + self.backoff.next_ms()
