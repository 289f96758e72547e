"""Runs a pipeline's stages and reports their progress, from the progress that Spark reports."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.spark.pipelines.plan import Stage
from tidelog.spark.progress import behind


class Standing(NamedTuple):
    """`rows` read so far by this run, `lag` in offsets behind the end when the last batch was planned, None if
    unknown."""

    batch: int
    rows: int
    rate: float
    lag: int | None


class Watch:
    """Sums up one query's progress reports."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self.standing = Standing(-1, 0, 0.0, None)

    def update(self, reports: list[Mapping[str, Any]]) -> bool:
        """Returns whether a batch has ended since the last call."""
        before = self.standing.batch
        for report in reports:
            self._rows[report["batchId"]] = _input_rows(report)
        if reports:
            last = reports[-1]
            rate = float(last.get("processedRowsPerSecond") or 0)
            self.standing = Standing(last["batchId"], sum(self._rows.values()), rate, lag(last["sources"]))
        return self.standing.batch != before


def _input_rows(report: Mapping[str, Any]) -> int:
    """Spark Connect reports the rows of each source only."""
    return int(report["numInputRows"] or sum(source.get("numInputRows") or 0 for source in report["sources"]))


def lag(sources: list[Mapping[str, Any]]) -> int | None:
    """The offsets that were available but not read, over all sources that report them."""
    found = [each for source in sources for each in behind(source).values()]
    return sum(found) if found else None


TICK_S = 0.2


class QueryFailed(Exception):
    """A query ended with an error; the message is Spark's."""


class Report(NamedTuple):
    stage: str
    standing: Standing
    is_new: bool
    """Whether a batch has ended since the last report."""


OnProgress = Callable[[Report], None]
IsWanted = Callable[[], bool]


@dataclass
class _Running:
    """A stage, its current query, and how many times in a row that query failed without finishing a batch."""

    stage: Stage
    query: Any
    watch: Watch = field(default_factory=Watch)
    failures: int = 0


def run(
    stages: Sequence[Stage],
    *,
    once: bool,
    on_progress: OnProgress,
    is_wanted: IsWanted = lambda: True,
    restarts: int = 0,
) -> None:
    """Run the stages one after the other until each has processed what exists (`once`), or all together while wanted. A
    query that fails is restarted from its checkpoint, up to `restarts` times in a row; then QueryFailed."""
    groups = [[stage] for stage in stages] if once else [list(stages)]
    for group in groups:
        _run(group, on_progress, is_wanted, restarts)


def _run(group: Sequence[Stage], on_progress: OnProgress, is_wanted: IsWanted, restarts: int) -> None:
    running: list[_Running] = []
    try:
        for stage in group:
            running.append(_Running(stage, stage.start()))  # noqa: PERF401  those before one that fails are stopped
        while is_wanted():
            are_over = not any(each.query.isActive for each in running)
            has_begun = [_look(each, on_progress, restarts) for each in running]
            if are_over and not any(has_begun):
                return
            time.sleep(TICK_S)
    finally:
        for each in running:
            each.query.stop()


def _look(each: _Running, on_progress: OnProgress, restarts: int) -> bool:
    """Returns whether the query was restarted."""
    failure = None if each.query.isActive else each.query.exception()
    is_new = each.watch.update(each.query.recentProgress)
    if is_new:
        each.failures = 0
    on_progress(Report(each.stage.name, each.watch.standing, is_new))
    if failure is None:
        return False
    if each.failures >= restarts:
        raise QueryFailed(f"stage {each.stage.name} ended: {failure}") from failure
    each.failures += 1
    each.query = each.stage.start()
    return True
