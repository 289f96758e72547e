"""Whole runs: one seed is a cluster, clients, a phase of faults and a phase in which everything must come right."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from tidelog.partition.truncation import KIP_320, Generation
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND, Faults
from tidelog.sim.nemesis import Nemesis
from tidelog.sim.network import Weather
from tidelog.sim.workload import Workload
from tidelog.sim.world import Violation


@dataclass(slots=True)
class Outcome:
    """What one seed came to. `violation` is empty where every invariant held; else it is the whole report."""

    seed: int
    digest: str
    seconds: float
    steps: int
    acked: int
    counts: dict[str, int]
    kinds: tuple[str, ...] = ()
    loss_allowed: int = 0
    violation: str = ""

    @property
    def ok(self) -> bool:
        return not self.violation


@dataclass(slots=True)
class Summary:
    """What many seeds came to: simulated seconds, steps, acknowledged records, and how often each thing happened."""

    seeds: int = 0
    seconds: float = 0.0
    steps: int = 0
    acked: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    failures: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.seconds += outcome.seconds
        self.steps += outcome.steps
        self.acked += outcome.acked
        for kind, count in outcome.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
        if not outcome.ok:
            self.failures.append(outcome)


def draw_faults(random: Random) -> Faults:
    """The pace of this seed's world: most are quick with a slow tail somewhere."""
    weather = Weather(
        tail_chance=random.choice((0.0, 0.0, 0.01, 0.1)),
        tail=(5 * MILLI, random.choice((50, 400, 3_000)) * MILLI),
        split_chance=random.choice((0.0, 0.1, 0.5)),
        cut_chance=random.choice((0.0, 0.0, 0.001, 0.01)),
    )
    return Faults(
        weather=weather,
        sync_delay=(100, random.choice((1, 20, 500)) * MILLI),
        store_delay=(100, random.choice((1, 10, 300)) * MILLI),
        store_lost=random.choice((0.0, 0.0, 0.02, 0.2)),
        session_term=random.choice((2, 4, 9)) * SECOND,
    )


def draw_properties(random: Random) -> dict[str, str]:
    return {
        "min.insync.replicas": random.choice(("1", "2", "2", "2", "3")),
        "log.segment.bytes": random.choice(("16384", "1048576")),
        "log.flush.interval.messages": random.choice(("1", "10", str(2**63 - 1), str(2**63 - 1))),
        "replica.lag.time.max.ms": random.choice(("1000", "4000", "30000")),
        "replica.fetch.wait.max.ms": random.choice(("50", "500")),
        "replica.high.watermark.checkpoint.interval.ms": random.choice(("500", "5000")),
        "log.flush.offset.checkpoint.interval.ms": random.choice(("1000", "60000")),
    }


def prepare(
    seed: int, kinds: tuple[str, ...] | None = None, generation: Generation = KIP_320
) -> tuple[Cluster, Nemesis]:
    random = Random(seed)
    brokers = random.choice((3, 3, 3, 4, 5))
    cluster = Cluster(
        seed,
        brokers=brokers,
        faults=draw_faults(random),
        properties=draw_properties(random),
        generation=generation,
    )
    return cluster, Nemesis(cluster, kinds)


def drive(cluster: Cluster, nemesis: Nemesis, safety_seconds: float = 30) -> None:
    cluster.start()
    workload = Workload(cluster)
    workload.start()
    nemesis.start()
    for _ in range(3):
        cluster.run(safety_seconds / 3)
        cluster.suite.scan(cluster.world)
    nemesis.over = True
    workload.stop()
    cluster.heal()
    workload.settle()


def run_seed(
    seed: int,
    kinds: tuple[str, ...] | None = None,
    safety_seconds: float = 30,
    generation: Generation = KIP_320,
) -> Outcome:
    """One seed from start to end; a violation is told in the outcome."""
    cluster, nemesis = prepare(seed, kinds, generation)
    violation = ""
    try:
        drive(cluster, nemesis, safety_seconds)
    except Violation as found:
        violation = str(found)
    except AssertionError as found:
        violation = str(cluster.world.violation(str(found)))
    world, ghosts = cluster.world, cluster.suite.ghosts
    return Outcome(
        seed,
        world.trace.digest,
        world.micros / SECOND,
        world.trace.step,
        sum(producer.acked for producer in cluster.producers),
        dict(sorted(world.counts.items())),
        nemesis.kinds,
        sum(1 for ghost in ghosts.partitions.values() if ghost.loss_allowed),
        violation,
    )


def simulate(seeds: Iterable[int], on_seed: Callable[[Outcome], None] | None = None) -> Summary:
    """Run the seeds one after another; `on_seed` is told of each as it ends."""
    summary = Summary()
    for seed in seeds:
        outcome = run_seed(seed)
        summary.add(outcome)
        if on_seed is not None:
            on_seed(outcome)
    return summary
