"""Row 24: three nodes that keep the cluster's metadata themselves (KRaft), each of them broker and controller: from the
start to the first acknowledged record; 1,000 partitions until all have acknowledged one; SIGKILL of the active
controller, which leads a third of them, until all acknowledge again; an idle cluster's CPU and memory.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import PASSES, Figures, Measure, Target
from bench.rows.starting import start
from bench.sides import Kafka, QuorumTidelog, Side
from bench.wire import active_controller, fresh_topic, leaders, patiently, produce_to_all

BROKERS = 3
PARTITIONS = 1000
LEADER_ACK = 1
MANY = "many"
IDLE_S = 15.0
KINDS: tuple[type[Side], ...] = (QuorumTidelog, Kafka)
FIGURES = (
    ("start", "start to first acknowledged record", "s", 0.8),
    ("create", "create {} partitions until each has acknowledged a record", "s", 1.5),
    ("failover", "SIGKILL of the active controller until all of {} partitions acknowledge again", "s", 0.5),
    ("idle", "CPU of a broker, idle with {} partitions", "% of a core", 2.0),
    ("resident", "memory of a broker with {} partitions", "MB", 60.0),
)


def quorum(scale: float) -> Iterator[Measure]:
    size = max(30, int(PARTITIONS * scale))
    found: dict[str, list[Figures]] = {kind.name: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        for number in range(PASSES + 1 if scale >= 1 else 1):
            for kind in KINDS:
                os.sync()  # thousands of folders that the side before made and left are not this one's to write
                figures = _pass(kind, Path(folder) / f"{kind.name}-{number}", size)
                line = "  ".join(f"{what} {value:.3g}" for what, value in figures.items())
                print(f"  {kind.name:9} {number or 'warm'}  {line}", flush=True)
                if number or scale < 1:
                    found[kind.name].append(figures)
    for figure, what, unit, bound in FIGURES:
        samples = {side: [each[figure] for each in passes] for side, passes in found.items()}
        text = f"three controllers and brokers: {what.format(size)}"
        yield Measure("24", text, unit, Target(bound, ratio=False), samples)


def _pass(kind: type[Side], folder: Path, size: int) -> Figures:
    """The folder stays until the row is done: ext4 does not use an inode again that was deleted within the last
    minutes, and looks at each of them for every new file, so what the pass before removed would slow this one down."""
    side = kind(folder, BROKERS)
    try:
        started = start(side)
        side.wait_ready()
        begin = time.perf_counter()
        fresh_topic(side.ports[0], MANY, size, BROKERS)
        patiently(produce_to_all, side.ports[0], MANY, LEADER_ACK)
        created = time.perf_counter() - begin
        before, begin = side.cpu_seconds(), time.perf_counter()
        time.sleep(IDLE_S)
        idle = (side.cpu_seconds() - before) / (time.perf_counter() - begin) / BROKERS
        resident = statistics.mean(side.resident_mb())
        return {
            "start": started,
            "create": created,
            "failover": _failover(side),
            "idle": idle * 100,
            "resident": resident,
        }
    finally:
        side.stop()


def _failover(side: Side) -> float:
    victim = patiently(active_controller, side.ports[0])
    led, _ = patiently(leaders, side.ports[0], MANY)
    if not any(leader == victim for leader in led.values()):
        raise RuntimeError(f"broker {victim} leads no partition")
    survivor = side.ports[(victim + 1) % BROKERS]
    begin = time.perf_counter()
    side.kill(victim)
    patiently(produce_to_all, survivor, MANY, LEADER_ACK, victim)
    return time.perf_counter() - begin
