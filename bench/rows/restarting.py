"""Row 12: one broker with 5 GB in 500 partitions, of which nothing was flushed, is killed by SIGKILL and started again:
the time until every partition has acknowledged a record."""

import time
from collections.abc import Iterator

from bench.loads.spread import spread
from bench.measure import Figures, Measure, Target, alternate, pair
from bench.sides import Side
from bench.wire import fresh_topic, patiently, produce_to_all

PARTITIONS = 500
SIZE = 5_000_000_000
TOPIC = "many"
LEADER_ACK = 1


def after_a_kill(scale: float) -> Iterator[Measure]:
    partitions = max(20, int(PARTITIONS * scale))
    with pair(1) as sides:
        for side in sides:
            fresh_topic(side.ports[0], TOPIC, partitions, 1)
            patiently(produce_to_all, side.ports[0], TOPIC, LEADER_ACK)
            begin = time.perf_counter()
            spread(side.ports[0], TOPIC, partitions, int(SIZE * scale))
            print(f"  {side.name:8} wrote in {time.perf_counter() - begin:.0f} s", flush=True)
        found = alternate(sides, _restart)
        what = "restart after SIGKILL, 5 GB in 500 partitions, until all serve"
        yield found.measure("seconds", "12", what, "s", Target(1))


def _restart(side: Side) -> Figures:
    side.kill(0)
    begin = time.perf_counter()
    side.start()
    patiently(produce_to_all, side.ports[0], TOPIC, LEADER_ACK)
    return {"seconds": time.perf_counter() - begin, "cpu": side.cpu_seconds()}
