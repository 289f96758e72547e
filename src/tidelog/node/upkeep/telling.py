"""What befell a log folder, told to the controller by a node in the tree: it then asks which replicas are still here.

A broker whose failed folder the controller does not hear of in time stops: the replicas in it would be led by nobody.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

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
        self._due: int | None = None

    def __repr__(self) -> str:
        return f"<FolderNews{'' if self._due is None else f' untold, until {self._due}'}>"

    @property
    def next_deadline(self) -> int | None:
        return self._due

    def tell(self, *, failed: bool) -> None:
        if failed and self._due is None:
            self._due = self._now().mono + self._timeout_ms
        path = f"{tree.LOG_DIR_EVENTS}/log_dir_event_{self._entropy(8).hex()}"

        def told(result: StoreResult) -> None:
            if result.outcome == "unknown":
                self.tell(failed=failed)
            else:
                self._due = None

        self._submit([Create(path, self._content)], told)

    def wake(self, now: Time) -> None:
        if self._due is not None and self._due <= now.mono:
            self._due = None
            self._effects.append(Stop("the controller did not hear of a failed log folder in time"))
