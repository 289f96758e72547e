"""Faults of clocks: wall clocks that jump, far or not, and that drift. What a broker waits for, it waits for by its
monotonic clock. A jump of days ahead makes it forget idle producers, transactional ids, groups' places and old records,
as it is asked to: some seeds have that, and from then on the ghosts know that the cluster has `aged`. One of an hour
back would make it refuse records as too new: that is not drawn.
"""

from collections.abc import Mapping
from random import Random

from tidelog.sim.faults import SECOND
from tidelog.sim.nemesis.strike import Kind, Strike

NEAR_MS = 100_000
FARTHEST_MS = (-50 * 60_000, 20 * 3_600_000)
DAY_MS = 24 * 3_600_000
DAYS = (1, 2, 7, 8, 8)
"""Producers are forgotten after one, records, transactional ids and groups' places after seven."""

AGING = (
    "log.retention.check.interval.ms",
    "producer.id.expiration.check.interval.ms",
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    "offsets.retention.check.interval.ms",
)
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


def clock_days(strike: Strike) -> None:
    """Somebody's clock, or everybody's, is days ahead; most often it is set right again."""
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
    """Who looks for what has expired does it often enough."""
    return {name: dice.choice(("500", "2000", "5000")) for name in AGING}


DRAWN: Mapping[str, Kind] = {"clock_days": clock_days}

KINDS: Mapping[str, Kind] = {"clock_jump": clock_jump, "clock_far": clock_far, "clock_drift": clock_drift}
