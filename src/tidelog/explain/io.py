"""The I/O of a diagnosis: sends what the gatherers yield to real brokers, with the blocking admin client."""

import time
from collections.abc import Sequence
from typing import TypeVar

from tidelog.errors import ApiError
from tidelog.explain.core.evidence import Evidence
from tidelog.explain.gathering.asking import Answer, Ask, Pause, Steps
from tidelog.explain.gathering.evidence import gather
from tidelog.explain.gathering.groups import find_group, groups_in, watch_groups
from tidelog.explain.gathering.look import Wanted
from tidelog.shell.transport import Admin

REQUEST_TIMEOUT_MS = 4_000
"""How long a broker has to answer; more than twice as long for both looks together."""
WATCH_MS = 1_000
PATIENCE_MS = 3_000
"""How long something that may pass by itself must last."""
GROUP_PATIENCE_MS = 15_000
"""How long a group may stand still: three times the 5 s of auto.commit.interval.ms."""

T = TypeVar("T")


def run(admin: Admin, steps: Steps[T]) -> T:
    """Run a gatherer against the cluster of this client."""
    answers: Sequence[Answer] = ()
    try:
        turn = next(steps)
        while True:
            if isinstance(turn, Pause):
                time.sleep(turn.ms / 1000)
                answers = ()
            else:
                answers = _answers(admin, turn)
            turn = steps.send(answers)
    except StopIteration as done:
        result: T = done.value
        return result


def _answers(admin: Admin, asks: Sequence[Ask]) -> list[Answer]:
    """All requests are in flight at the same time."""
    began = _wall_ms()
    tickets = [
        admin.submit(
            ask.request,
            ask.target,
            newest=ask.newest,
            timeout_ms=REQUEST_TIMEOUT_MS,
            retries=not isinstance(ask.target, int) or ask.target < 0,  # what one broker answers is the evidence
        )
        for ask in asks
    ]
    answers = []
    for ticket in tickets:
        try:
            response = admin.result(ticket)
        except ApiError as error:
            answers.append(Answer(None, error.code, began, _wall_ms()))
        else:
            answers.append(Answer(response, began_ms=began, ended_ms=_wall_ms()))
    return answers


def _wall_ms() -> int:
    return int(time.time() * 1000)


def cluster_evidence(
    admin: Admin,
    wanted: Wanted = lambda _: True,
    *,
    topics: Sequence[str] | None = None,
    watch_ms: int = WATCH_MS,
    patience_ms: int = PATIENCE_MS,
    group_patience_ms: int | None = None,
) -> Evidence:
    """The evidence about all brokers and the topics that `wanted` selects; with `group_patience_ms` about all consumer
    groups, too. ApiError if no broker answers."""
    evidence, look = run(admin, gather(wanted, watch_ms=watch_ms, patience_ms=patience_ms, topics=topics))
    if group_patience_ms is not None:
        evidence.unanswered += look.unlisted
        watched = watch_groups(evidence, groups_in(look), watch_ms=watch_ms, patience_ms=group_patience_ms)
        evidence.groups = run(admin, watched)
    return evidence


def group_evidence(
    admin: Admin, name: str, *, watch_ms: int = WATCH_MS, patience_ms: int = GROUP_PATIENCE_MS
) -> Evidence:
    """The evidence about one consumer group and the cluster. ApiError if it has no coordinator."""
    coordinator = run(admin, find_group(name))
    evidence, _ = run(admin, gather(lambda _: True, watch_ms=0, patience_ms=0))
    watched = watch_groups(evidence, {name: coordinator}, watch_ms=watch_ms, patience_ms=patience_ms)
    evidence.groups = run(admin, watched)
    return evidence
