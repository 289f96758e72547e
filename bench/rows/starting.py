"""Row 7: from the start of the processes, with empty folders, to the first acknowledged record (acks=all, every broker
a replica)."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import PASSES, Measure, Target
from bench.sides import Kafka, Side, Tidelog
from bench.wire import create, patiently, produce_to_all

TOPIC = "first"
ALL = -1


def first_record(scale: float) -> Iterator[Measure]:
    del scale
    for brokers, bound, what in ((1, 0.5, "one broker"), (3, 1.5, "three brokers, replication 3")):
        samples: dict[str, list[float]] = {"Tidelog": [], "Kafka": []}
        cpu: dict[str, list[float]] = {"Tidelog": [], "Kafka": []}
        for number in range(PASSES + 1):
            for kind in (Tidelog, Kafka):
                seconds, used = _start(kind, brokers)
                print(f"  {kind.name:8} {number or 'warm'}  {seconds:.2f} s", flush=True)
                if number:
                    samples[kind.name].append(seconds)
                    cpu[kind.name].append(used)
        yield Measure(
            "7", f"start to first acknowledged record, {what}", "s", Target(bound, ratio=False), samples, {}, cpu
        )


def _start(kind: type[Side], brokers: int) -> tuple[float, float]:
    """(seconds, CPU seconds); what has to be there before, as Kafka's formatted folders, is not counted."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        side = kind(Path(folder) / "cluster", brokers)
        try:
            return start(side), side.cpu_seconds()
        finally:
            side.stop()


def start(side: Side) -> float:
    """Start the processes; returns the seconds until the first record was acknowledged."""
    begin = time.perf_counter()
    side.start()
    patiently(create, side.ports[0], TOPIC, 1, side.brokers)
    patiently(produce_to_all, side.ports[0], TOPIC, ALL)
    return time.perf_counter() - begin
