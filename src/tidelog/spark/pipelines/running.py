"""Runs a pipeline's stages and tells how far they are."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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


@dataclass
class _Running:
    """A stage, its query of the moment, and how often in a row that has failed without having ended a batch."""

    stage: Stage
    query: Any
    watch: Watch = field(default_factory=Watch)
    failures: int = 0


def run(
    stages: Sequence[Stage], *, once: bool, tell: Tell, is_wanted: IsWanted = lambda: True, restarts: int = 0
) -> None:
    """All stages one after the other until each has done what is there (`once`), or all together while wanted. A query
    that fails is started again, which its checkpoint allows, up to so many times in a row; then QueryFailed."""
    groups = [[stage] for stage in stages] if once else [list(stages)]
    for group in groups:
        _run(group, tell, is_wanted, restarts)


def _run(group: Sequence[Stage], tell: Tell, is_wanted: IsWanted, restarts: int) -> None:
    running: list[_Running] = []
    try:
        for stage in group:
            running.append(_Running(stage, stage.start()))  # noqa: PERF401  those before one that fails are stopped
        while is_wanted():
            are_over = not any(each.query.isActive for each in running)
            has_begun = [_look(each, tell, restarts) for each in running]
            if are_over and not any(has_begun):
                return
            time.sleep(TICK_S)
    finally:
        for each in running:
            each.query.stop()


def _look(each: _Running, tell: Tell, restarts: int) -> bool:
    """Whether the query was started again."""
    failure = None if each.query.isActive else each.query.exception()
    is_new = each.watch.update(each.query.recentProgress)
    if is_new:
        each.failures = 0
    tell(Report(each.stage.name, each.watch.standing, is_new))
    if failure is None:
        return False
    if each.failures >= restarts:
        raise QueryFailed(f"stage {each.stage.name} ended: {failure}") from failure
    each.failures += 1
    each.query = each.stage.start()
    return True
