"""Faults of clocks: wall clocks that jump, far or not, and that drift. What a broker waits for, it waits for by its
monotonic clock. A jump of a day ahead would make it forget idle producers and old records, and one of an hour back
refuse records as too new, as it is asked to: those are not drawn.
"""

from collections.abc import Mapping

from tidelog.sim.nemesis.strike import Kind, Strike

NEAR_MS = 100_000
FARTHEST_MS = (-50 * 60_000, 20 * 3_600_000)
DRIFTS = (-200, -10, 0, 10, 200)
"""Milliseconds in a second."""


def clock_jump(strike: Strike) -> None:
    host = strike.random.choice(strike.world.hosts)
    host.wall_offset = strike.random.randint(-NEAR_MS, NEAR_MS)


def clock_far(strike: Strike) -> None:
    host = strike.random.choice(strike.world.hosts)
    host.wall_offset = strike.random.randint(*FARTHEST_MS)


def clock_drift(strike: Strike) -> None:
    strike.random.choice(strike.world.hosts).drifts(strike.random.choice(DRIFTS))


KINDS: Mapping[str, Kind] = {"clock_jump": clock_jump, "clock_far": clock_far, "clock_drift": clock_drift}
