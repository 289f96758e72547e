"""Runs a pipeline's stages and tells how far they are."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.spark.pipelines.plan import Stage
from tidelog.spark.pipelines.progress import Standing, Watch

TICK_S = 0.2


class QueryFailed(Exception):
    """A query has ended with an error; the message is Spark's."""


class Report(NamedTuple):
    stage: str
    standing: Standing
    is_new: bool
    """Whether a batch has ended since the last report."""


Tell = Callable[[Report], None]
IsWanted = Callable[[], bool]


def run(stages: Sequence[Stage], *, once: bool, tell: Tell, is_wanted: IsWanted = lambda: True) -> None:
    """All stages one after the other until each has done what is there (`once`), or all together while wanted."""
    groups = [[stage] for stage in stages] if once else [list(stages)]
    for group in groups:
        _run(group, tell, is_wanted)


def _run(group: Sequence[Stage], tell: Tell, is_wanted: IsWanted) -> None:
    running: list[tuple[Stage, Any, Watch]] = []
    try:
        for stage in group:
            running.append((stage, stage.start(), Watch()))  # noqa: PERF401  those before one that fails are stopped
        while is_wanted() and any(query.isActive for _, query, _ in running):
            _look(running, tell)
            time.sleep(TICK_S)
        _look(running, tell)
    finally:
        for _, query, _ in running:
            query.stop()


def _look(running: Sequence[tuple[Stage, Any, Watch]], tell: Tell) -> None:
    for stage, query, watch in running:
        failure = None if query.isActive else query.exception()
        if failure is not None:
            raise QueryFailed(f"stage {stage.name} ended: {failure}") from failure
        is_new = watch.update(query.recentProgress)
        tell(Report(stage.name, watch.standing, is_new))
