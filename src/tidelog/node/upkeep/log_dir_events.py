"""Failures of log folders, reported to the controller by a node in the tree; it then asks which replicas are left.

A broker that cannot report a failed folder in time stops: the partitions led from that folder would have no leader.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol

from tidelog.alarms import Alarm
from tidelog.controller import tree
from tidelog.effects import Effect, Stop
from tidelog.model import Time
from tidelog.ports import Create, Operation, StoreResult

Submit = Callable[[Sequence[Operation], Callable[[StoreResult], None]], None]


class ReportLogDir(Protocol):
    """Report that a log folder failed, or that one has room again."""

    def __call__(self, *, failed: bool) -> None: ...


class LogDirEvents:
    """`timeout_ms`: log.dir.failure.timeout.ms."""

    def __init__(
        self,
        broker_id: int,
        timeout_ms: int,
        submit: Submit,
        effects: list[Effect],
        entropy: Callable[[int], bytes],
        now: Callable[[], Time],
    ) -> None:
        self._content = tree.format_log_dir_event(broker_id)
        self._timeout_ms = timeout_ms
        self._submit = submit
        self._effects = effects
        self._entropy = entropy
        self._now = now
        self._numbers = count(1)
        self._unreported: dict[int, int] = {}
        """Failures that are not reported yet: number → the deadline."""
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<LogDirEvents {len(self._unreported)} failures untold>"

    @property
    def next_deadline(self) -> int | None:
        return min(self._unreported.values(), default=None)

    def report(self, *, failed: bool) -> None:
        number = next(self._numbers)
        if failed:
            self._unreported[number] = self._now().mono + self._timeout_ms
            self.alarm.set(self.next_deadline)
        self._create_node(number)

    def _create_node(self, number: int) -> None:
        path = f"{tree.LOG_DIR_EVENTS}/log_dir_event_{self._entropy(8).hex()}"

        def reported(result: StoreResult) -> None:
            if result.outcome == "unknown":
                self._create_node(number)
            else:
                self._unreported.pop(number, None)
                self.alarm.set(self.next_deadline)

        self._submit([Create(path, self._content)], reported)

    def wake(self, _now: Time) -> None:
        self._unreported.clear()
        self.alarm.set(None)
        self._effects.append(Stop("the controller did not hear of a failed log folder in time"))
