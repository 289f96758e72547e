"""Row 9: the same three brokers with ever more partitions, replication 3: to create them, to hold them idle, and to
lose a broker by SIGKILL until a record is acknowledged on every partition again."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Figures, Measure, Target
from bench.sides import Kafka, Side, Tidelog
from bench.wire import fresh_topic, patiently, produce_to_all

SIZES = (10, 100, 1000, 2000)
MEASURED_OFTEN, OFTEN = 1000, 3
IDLE_S = 10.0
SETTLE_S = 10.0
TOPIC = "many"
BROKERS = 3
VICTIM = 2
LEADER_ACK = 1

LINES = (
    ("create", "create, until each has acknowledged a record", "s", 2),
    ("idle", "idle CPU of all brokers", "% of a core", 5),
    ("failover", "SIGKILL of a broker to the last partition writable", "s", 2),
    ("resident", "resident memory per broker", "MB", 100),
)


def partitions(scale: float) -> Iterator[Measure]:
    for size in SIZES:
        often = OFTEN if size == MEASURED_OFTEN and scale >= 1 else 1
        found: dict[str, list[Figures]] = {"Tidelog": [], "Kafka": []}
        for _ in range(often):
            for kind in (Tidelog, Kafka):
                figures = _grow(kind, size)
                found[kind.name].append(figures)
                line = "  ".join(f"{name} {value:.4g}" for name, value in figures.items())
                print(f"  {kind.name:8} {size} partitions  {line}", flush=True)
        cpu = {side: [each["cpu"] for each in samples] for side, samples in found.items()}
        for name, what, unit, bound in LINES:
            samples = {side: [each[name] for each in passes] for side, passes in found.items()}
            target = Target(bound, ratio=False) if size == MEASURED_OFTEN else None
            yield Measure("9", f"{size} partitions: {what}", unit, target, samples, {}, cpu)


def _grow(kind: type[Side], size: int) -> Figures:
    with (
        tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder,
        kind(Path(folder) / "cluster", BROKERS) as side,
    ):
        fresh_topic(side.ports[0], "first", 1, BROKERS)  # wakes what is loaded at first use
        begin = time.perf_counter()
        fresh_topic(side.ports[0], TOPIC, size, BROKERS)
        patiently(produce_to_all, side.ports[0], TOPIC, LEADER_ACK)
        created = time.perf_counter() - begin
        time.sleep(SETTLE_S)
        before = side.cpu_seconds()
        time.sleep(IDLE_S)
        total = side.cpu_seconds()
        return {
            "create": created,
            "idle": (total - before) / IDLE_S * 100,
            "resident": max(side.resident_mb()),
            "failover": _fail_over(side),
            "cpu": total,
        }


def _fail_over(side: Side) -> float:
    begin = time.perf_counter()
    side.kill(VICTIM)
    patiently(produce_to_all, side.ports[0], TOPIC, LEADER_ACK, VICTIM)
    return time.perf_counter() - begin
