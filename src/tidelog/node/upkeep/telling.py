"""What befell a log folder, told to the controller by a node in the tree: it then asks which replicas are still here.

A broker whose failed folder the controller does not hear of in time stops: the replicas in it would be led by nobody.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from tidelog.alarms import NEVER, Alarm
from tidelog.controller import tree
from tidelog.effects import Effect, Stop
from tidelog.model import Time
from tidelog.ports import Create, Operation, StoreResult

Submit = Callable[[Sequence[Operation], Callable[[StoreResult], None]], None]


class Tell(Protocol):
    """Something befell a log folder."""

    def __call__(self, *, failed: bool) -> None: ...


class FolderNews:
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
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<FolderNews{'' if self.alarm.at == NEVER else f' untold, until {self.alarm.at}'}>"

    def tell(self, *, failed: bool) -> None:
        if failed and self.alarm.at == NEVER:
            self.alarm.set(self._now().mono + self._timeout_ms)
        path = f"{tree.LOG_DIR_EVENTS}/log_dir_event_{self._entropy(8).hex()}"

        def told(result: StoreResult) -> None:
            if result.outcome == "unknown":
                self.tell(failed=failed)
            else:
                self.alarm.set(None)

        self._submit([Create(path, self._content)], told)

    def wake(self, now: Time) -> None:
        if self.alarm.at <= now.mono:
            self.alarm.set(None)
            self._effects.append(Stop("the controller did not hear of a failed log folder in time"))
