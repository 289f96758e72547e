"""Make a failing run smaller: as few faults, clients, partitions and seconds as still break the same invariant.

Leaving something out changes the randomness for everything else, so a smaller run may pass, or break something else:
then it is discarded. Faults are removed first in halves, then one by one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tidelog.sim.outcome import Outcome
from tidelog.sim.plan import Plan
from tidelog.sim.workload import LATER, PARTS

ATTEMPTS = 400
SHORTEST = 2.0

Run = Callable[[Plan], Outcome]
Tried = Callable[[Outcome, int], None]


def shrink(failing: Outcome, run: Run, tried: Tried | None = None, attempts: int = ATTEMPTS) -> Outcome:
    """Return the smallest failing run found within so many attempts; `tried` is called after each, with the smallest so
    far.
    """
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
    """Yield the plans to try next, the largest cuts first."""
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
    """Yield the faults without one half, without one quarter, …, without one."""
    size = len(faults)
    while size > 1:
        size = (size + 1) // 2
        for start in range(0, len(faults), size):
            yield (*faults[:start], *faults[start + size :])
    if len(faults) == 1:
        yield ()
