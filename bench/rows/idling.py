"""Row 13: what a broker's CPU does for 2,000 groups of three members that only say that they are there."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

from bench.loads.groups import Groups
from bench.measure import Figures, Measure, Target, alternate, pair
from bench.sides import Side

GROUPS = 2_000
SECONDS = 15.0
"""Of a pass, while the other side's members are silent: less than their session timeout of 45 s."""


def groups(scale: float) -> Iterator[Measure]:
    number = max(20, int(GROUPS * scale))
    with pair(1, group_initial_rebalance_delay_ms="0") as sides, ExitStack() as stack:
        members: dict[str, Groups] = {}
        for side in sides:
            begin = time.perf_counter()
            members[side.name] = Groups(side, number)
            stack.callback(members[side.name].close)
            print(f"  {side.name:8} {number} groups joined in {time.perf_counter() - begin:.0f} s", flush=True)

        def load(side: Side) -> Figures:
            before, begin = side.cpu_seconds(), time.perf_counter()
            members[side.name].beat(SECONDS)
            used = (side.cpu_seconds() - before) / (time.perf_counter() - begin)
            return {"cpu of a core": used * 100, "resident": side.resident_mb()[0]}

        found = alternate(sides, load)
        what = "2,000 idle groups of 3 members: CPU of the broker"
        yield found.measure("cpu of a core", "13", what, "% of a core", Target(10, ratio=False))
