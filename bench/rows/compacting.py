"""Row 11: how fast a topic of 2 GB with a million keys is compacted, and what a producer to another topic feels of it:
one request every two milliseconds, before and meanwhile."""

import os
import time
from collections.abc import Iterator
from itertools import count

from bench.loads.keyed import Keyed
from bench.loads.steady import Steady
from bench.measure import Figures, Measure, Target, alternate, pair
from bench.sides import Side
from bench.wire import configure, delete, fresh_topic

RECORDS, KEYS, SIZE = 2_000_000, 1_000_000, 1000
SEGMENT_BYTES = 128 * 1024 * 1024
IDLE_S = 5.0
EVERY_MS = 2.0
OTHER = "other"
CHECKPOINT = "cleaner-offset-checkpoint"
POLL_S = 0.02
TIMEOUT_S = 600.0
OPTIONS = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01"}
NEVER, AT_ONCE = {"min.compaction.lag.ms": str(2**62)}, {"min.compaction.lag.ms": "0"}


def compaction(scale: float) -> Iterator[Measure]:
    with pair(1, log_cleaner_backoff_ms="100") as sides:
        for side in sides:
            fresh_topic(side.ports[0], OTHER, 1, 1)
        found = alternate(sides, _Compaction(int(RECORDS * scale) // 10_000 * 10_000, int(KEYS * scale)))
        yield found.measure("rate", "11", "compaction of 2 GB, 1 M keys", "MB/s", Target(0.5, at_least=True))
        yield found.measure("slower", "11", "produce p99 during compaction, times idle", "x", Target(2, ratio=False))
        yield found.measure("longest", "11", "longest produce during compaction", "ms", Target(20, ratio=False))


class _Compaction:
    """A topic of its own for each pass; its last segment is not compacted, and not counted."""

    def __init__(self, records: int, keys: int) -> None:
        self.client = Keyed(records, SIZE, keys)
        self._numbers = count()

    def __call__(self, side: Side) -> Figures:
        topic, port = f"keyed-{next(self._numbers)}", side.ports[0]
        options = {
            "cleanup.policy": "compact",
            "segment.bytes": str(SEGMENT_BYTES),
            "min.cleanable.dirty.ratio": "0.01",
        }
        fresh_topic(port, topic, 1, 1, options | NEVER)
        self.client.run(side.bootstrap, topic)
        os.sync()  # what the clients' records cost the disk is not the compaction's
        before = _closed_bytes(side, topic)
        load = Steady(port, OTHER, EVERY_MS)
        time.sleep(IDLE_S)
        idle = load.stop()
        load = Steady(port, OTHER, EVERY_MS)
        seconds = _compact(side, topic)
        busy = load.stop()
        after = _closed_bytes(side, topic)
        delete(port, topic)
        return {
            "rate": before / seconds / 1e6,
            "seconds": seconds,
            "left": after / before,
            "idle p99": idle["p99"],
            "p99": busy["p99"],
            "slower": busy["p99"] / idle["p99"],
            "idle longest": idle["longest"],
            "longest": busy["longest"],
        }


def _compact(side: Side, topic: str) -> float:
    """Let the topic be compacted; seconds until the broker notes that it is."""
    begin = time.perf_counter()
    configure(side.ports[0], topic, AT_ONCE)
    while not _is_compacted(side, topic):
        if time.perf_counter() > begin + TIMEOUT_S:
            raise RuntimeError(f"{side.name} has not compacted {topic}")
        time.sleep(POLL_S)
    return time.perf_counter() - begin


def _is_compacted(side: Side, topic: str) -> bool:
    """By the checkpoint, where both write how far a log is clean: up to its last segment."""
    path = side.data(0) / CHECKPOINT
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    active = max(path.name for path in (side.data(0) / f"{topic}-0").glob("*.log"))
    return f"{topic} 0 {int(active.removesuffix('.log'))}" in lines


def _closed_bytes(side: Side, topic: str) -> int:
    *closed, _ = sorted((side.data(0) / f"{topic}-0").glob("*.log"))
    return sum(path.stat().st_size for path in closed)
