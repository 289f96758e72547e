"""Requests to one coordinator, one after the other, each tried again until it is answered for good or its time is over.

Their order is kept: what a transaction's coordinator is told later depends on what it was told before.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidelog.client.cluster import Cluster
from tidelog.client.group.attempt import Attempt
from tidelog.client.group.coordinator import CoordinatorFinder
from tidelog.client.link import Answer
from tidelog.errors import RETRIABLE, ErrorCode
from tidelog.model import Time

Finish = Callable[[ErrorCode, Any, Time], None]
"""Takes the code of how it ended, and the response where there is one."""


@dataclass(slots=True, eq=False, kw_only=True)
class _Call(Attempt):
    code_in: Callable[[Any], ErrorCode]
    finish: Finish


class Calls:
    """The queue of requests to the coordinator of one key."""

    def __init__(self, cluster: Cluster, finder: CoordinatorFinder) -> None:
        self._cluster = cluster
        self.finder = finder
        self._queue: deque[_Call] = deque()

    def __repr__(self) -> str:
        return f"<Calls {len(self._queue)} to {self.finder!r}>"

    @property
    def is_idle(self) -> bool:
        return not self._queue

    def ask(
        self,
        request: Any,
        code_in: Callable[[Any], ErrorCode],
        finish: Finish,
        now: Time,
        *,
        timeout_ms: int,
        newest: int = 32767,
    ) -> None:
        """`code_in` finds the code in a response; a retriable one is tried again."""
        call = _Call(
            request=request,
            deadline=now.mono + timeout_ms,
            newest=newest,
            backoff=self._cluster.backoff(),
            code_in=code_in,
            finish=finish,
        )
        self._queue.append(call)

    def advance(self, now: Time) -> None:
        while self._queue and not self._queue[0].is_out:
            call = self._queue[0]
            if now.mono >= call.deadline or self.finder.refused:
                self._end(call, self.finder.refused or call.last, None, now)
            elif now.mono >= call.retry_at:
                call.send(self._cluster, self.finder, partial(self._answered, call), now)
                return
            else:
                return

    @property
    def deadline(self) -> int | None:
        """When `advance` has something to do though nothing happened."""
        if not self._queue or self._queue[0].is_out:
            return None
        call = self._queue[0]
        if call.retry_at:
            return min(call.deadline, call.retry_at)
        found = self.finder.deadline
        return call.deadline if found is None else min(call.deadline, found)

    def _answered(self, call: _Call, answer: Answer, now: Time) -> None:
        call.is_out = False
        code = answer.fault or call.code_in(answer.response)
        is_again = self.finder.judge(code, answer.fault, now) or (code in RETRIABLE and not answer.fault)
        if is_again and answer.fault is not ErrorCode.UNSUPPORTED_VERSION:
            call.again(code, now)
        else:
            self._end(call, code, answer.response, now)

    def _end(self, call: _Call, code: ErrorCode, response: Any, now: Time) -> None:
        assert self._queue[0] is call, call
        self._queue.popleft()
        call.finish(code, response, now)
