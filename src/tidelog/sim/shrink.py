"""A failing run made smaller: as few faults, clients, partitions and seconds as still break the same invariant.

What is left out changes chance for everything else, so a smaller run may pass, or break something else: then it is not
taken. Faults go first in halves, then one by one, until none can go.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tidelog.sim.outcome import Outcome
from tidelog.sim.plan import Plan
from tidelog.sim.workload import LATER, PARTS

ATTEMPTS = 400
SHORTEST = 2.0

Run = Callable[[Plan], Outcome]
SeenRecords = Callable[[Outcome, int], None]


def shrink(failing: Outcome, run: Run, tried: SeenRecords | None = None, attempts: int = ATTEMPTS) -> Outcome:
    """The smallest that was found within so many runs; `tried` hears of each, with the smallest so far."""
    smallest, left = failing, attempts
    while left:
        for plan in smaller(smallest):
            left -= 1
            outcome = run(plan)
            if tried is not None:
                tried(smallest, attempts - left)
            if outcome.invariant == failing.invariant:
                smallest = outcome
                break
            if not left:
                return smallest
        else:
            return smallest
    return smallest


def smaller(outcome: Outcome) -> Iterator[Plan]:
    """What could be tried next, the greatest cuts first."""
    plan = outcome.plan
    for part in (*PARTS, *LATER):
        if part not in plan.without:
            yield replace(plan, without=(*plan.without, part))
    for number in range(1, plan.partitions or 3):
        yield replace(plan, partitions=number)
    if plan.brokers is None or plan.brokers > 3:
        yield replace(plan, brokers=3)
    for seconds in (plan.seconds / 2, plan.seconds * 0.8, plan.seconds - 1):
        if seconds >= SHORTEST:
            yield replace(plan, seconds=round(seconds, 1))
    for kept in fewer(tuple(outcome.struck)):
        yield replace(plan, only=kept)


def fewer(faults: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Without half of them, without a quarter, …, without one."""
    size = len(faults)
    while size > 1:
        size = (size + 1) // 2
        for start in range(0, len(faults), size):
            yield (*faults[:start], *faults[start + size :])
    if len(faults) == 1:
        yield ()
