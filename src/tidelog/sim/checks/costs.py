"""I49 (S): no input of a broker takes more than 50 ms of CPU time, because everything else in its loop waits as
long.

The processor time of this thread counts, which does not grow while it waits for a processor; the garbage collector is
paused. It is not part of the digest. A machine may be slow for a moment, and the first call of a function costs more: a
slow input counts only if the same input of the same seed is slow in every run (`describe_slow`).
"""

import gc
from collections.abc import Callable, Iterable, Sequence
from time import thread_time
from typing import Any, NamedTuple

from tidelog.api.registry import APIS

LIMIT = 0.050
RUNS = 3
"""How often a seed with an input above the limit is run in total."""


class Cost(NamedTuple):
    """The seconds that the input of one step took. `kind` is its name, for frames with the names of the requests."""

    seconds: float = 0.0
    kind: str = ""
    step: int = 0

    def __str__(self) -> str:
        return f"{self.seconds * 1000:.0f} ms ({self.kind}, step {self.step})"


NOTHING = Cost()


class Meter:
    """`most` is the most expensive input so far, `slow` are those above the limit. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = thread_time) -> None:
        self.most = NOTHING
        self.slow: list[Cost] = []
        self._clock = clock
        self._collects = True

    def __repr__(self) -> str:
        return f"<Meter: at most {self.most}>"

    def begin(self) -> float:
        self._collects = gc.isenabled()
        gc.disable()
        return self._clock()

    def end(self, begun: float, step: int, name: str, arguments: Sequence[Any]) -> None:
        seconds = self._clock() - begun
        if self._collects:
            gc.enable()
        if seconds > self.most.seconds:
            self.most = Cost(seconds, kind_of(name, arguments), step)
        if seconds > LIMIT:
            self.slow.append(Cost(seconds, kind_of(name, arguments), step))


def kind_of(name: str, arguments: Sequence[Any]) -> str:
    if name != "receive":
        return name
    keys = [int.from_bytes(frame[:2], "big") for frame in arguments[1]]
    names = dict.fromkeys(APIS[key].name if key in APIS else str(key) for key in keys)
    return f"{name} {', '.join(names)}"


def slow_in_both(before: Iterable[Cost], after: Iterable[Cost]) -> list[Cost]:
    """Return the inputs that were slow in both runs, each with the lower cost."""
    measured = {cost.step: cost for cost in after}
    return [min(cost, measured[cost.step]) for cost in before if cost.step in measured]


def describe_slow(slow: Sequence[Cost], run: Callable[[], Sequence[Cost]]) -> str:
    """Return the violation of I49, or an empty text, after as many more runs of the seed as necessary.

    `run` runs the seed again and returns its slow inputs.
    """
    for _ in range(RUNS - 1):
        if not slow:
            break
        slow = slow_in_both(slow, run())
    return f"I49: an input took {max(slow)} of CPU time in each of {RUNS} runs" if slow else ""
