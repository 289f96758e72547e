"""Faults of clocks: wall clocks that jump, near or far, and that drift.

Brokers measure timeouts by their monotonic clocks. A jump of days ahead expires idle producers, transactional IDs,
groups' offsets and old records, as configured: some seeds have that, and from then on the ghosts know that the cluster
has `aged`. A jump back by more than an hour would make a broker refuse records as too new: that is not drawn.
"""

from collections.abc import Mapping
from random import Random

from tidelog.sim.faults import SECOND
from tidelog.sim.nemesis.strike import Kind, Strike

NEAR_MS = 100_000
FARTHEST_MS = (-50 * 60_000, 20 * 3_600_000)
DAY_MS = 24 * 3_600_000
DAYS = (1, 2, 7, 8, 8)
"""Producers expire after one day; records, transactional IDs and groups' offsets after seven."""

AGING = (
    "log.retention.check.interval.ms",
    "producer.id.expiration.check.interval.ms",
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    "offsets.retention.check.interval.ms",
)
DRIFTS = (-200, -10, 0, 10, 200)
"""Milliseconds per second."""


def clock_jump(strike: Strike) -> None:
    host = strike.random.choice(strike.world.hosts)
    host.wall_offset = strike.random.randint(-NEAR_MS, NEAR_MS)


def clock_far(strike: Strike) -> None:
    host = strike.random.choice(strike.world.hosts)
    host.wall_offset = strike.random.randint(*FARTHEST_MS)


def clock_drift(strike: Strike) -> None:
    strike.random.choice(strike.world.hosts).drifts(strike.random.choice(DRIFTS))


def clock_days(strike: Strike) -> None:
    """Set one or all clocks days ahead; most often they are set right again."""
    hosts = strike.world.hosts if strike.random.random() < 0.3 else [strike.random.choice(strike.world.hosts)]
    ahead = strike.random.choice(DAYS) * DAY_MS + strike.random.randint(0, NEAR_MS)
    strike.atlas.ghosts.aged = True
    strike.world.count("clock days ahead")
    for host in hosts:
        host.wall_offset = ahead

    def right() -> None:
        for host in hosts:
            host.wall_offset = 0

    if strike.random.random() < 0.7:
        strike.later(strike.drawn(2 * SECOND, 10 * SECOND), right)


def draw_properties(dice: Random) -> dict[str, str]:
    """Draw options that check often for what has expired."""
    return {name: dice.choice(("500", "2000", "5000")) for name in AGING}


DRAWN: Mapping[str, Kind] = {"clock_days": clock_days}

KINDS: Mapping[str, Kind] = {"clock_jump": clock_jump, "clock_far": clock_far, "clock_drift": clock_drift}
