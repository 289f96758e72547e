"""Whole runs: one seed is a cluster, clients, a phase of faults, and a phase in which everything must recover."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random

from tidelog.partition.truncation import GENERATIONS
from tidelog.quorum.options import DEFAULTS
from tidelog.sim.checks import costs
from tidelog.sim.clients import group
from tidelog.sim.cluster import Cluster
from tidelog.sim.coverage import probed
from tidelog.sim.faults import MILLI, SECOND, Faults
from tidelog.sim.nemesis import DRAWN, FOLDERED, NEEDS, PARTICULAR, SELDOM, Nemesis, clocks
from tidelog.sim.network import Weather
from tidelog.sim.outcome import Outcome
from tidelog.sim.parts import compaction, moves, topology
from tidelog.sim.plan import Plan, dice_of
from tidelog.sim.workload import Workload
from tidelog.sim.world import Violation

COLLECT_EVERY = 10_000
"""Objects allocated, less those freed, before Python looks for cycles; a world creates few of them."""
SCANS = 3
"""How often all logs are scanned in the safety phase."""
REPLICAS = 3
"""The default replication factor."""


def draw_faults(random: Random) -> Faults:
    """Draw the pace of this seed's world: most are fast with a slow tail somewhere."""
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
        "replica.fetch.wait.max.ms": random.choice(("150", "500")),
        "replica.high.watermark.checkpoint.interval.ms": random.choice(("500", "5000")),
        "log.flush.offset.checkpoint.interval.ms": random.choice(("1000", "60000")),
        "leader.imbalance.check.interval.seconds": random.choice(("1", "2", "300")),
    }


def draw_cluster(plan: Plan) -> tuple[int, int, Faults, dict[str, str]]:
    """Return the number of brokers, the replication factor, the pace, and the brokers' options."""
    random = Random(plan.seed)
    brokers, faults, properties = random.choice((3, 3, 3, 4, 5)), draw_faults(random), draw_properties(random)
    factor = REPLICAS
    for part, draw in (
        ("compaction", compaction.draw_properties),
        ("folders", topology.draw_log_directories),
        ("racks", topology.draw_rack_properties),
        ("clock_days", clocks.draw_properties),
    ):
        dice = dice_of(plan.seed, part, plan.without)
        if dice is not None:
            properties |= draw(dice)
    properties |= group.group_properties(plan.seed, plan.without)
    if is_moving(plan):
        properties |= moves.draw_throttles(Random(f"{plan.seed} rates"))
        brokers = max(brokers, moves.BROKERS)
    dice = dice_of(plan.seed, "factors", plan.without)
    if dice is not None:
        factor, internal = topology.draw_factors(dice, plan.brokers)
        properties |= topology.factor_properties(internal)
        brokers = max(brokers, factor, internal)
    return plan.brokers or brokers, factor, faults, properties


def draw_voters(plan: Plan, brokers: int) -> int:
    """Return how many voters the metadata quorum has; 0 if the metadata is in a store outside."""
    dice = dice_of(plan.seed, "quorum", plan.without)
    if dice is None:
        return 0
    return min(brokers, dice.choice((1, 3, 3, 3, 5)))


def prepare(plan: Plan) -> tuple[Cluster, Nemesis]:
    """Return the cluster of a seed and its nemesis; nothing has started yet."""
    brokers, factor, faults, properties = draw_cluster(plan)
    generation = GENERATIONS[plan.generation]
    cluster = Cluster(
        plan.seed,
        brokers=brokers,
        faults=faults,
        properties=properties,
        generation=generation,
        factor=factor,
        elr=dice_of(plan.seed, "elr", plan.without) is not None,
        voters=draw_voters(plan, brokers),
        has_static_voters=dice_of(plan.seed, "static-voters", plan.without) is not None,
    )
    has = partial(dice_of, plan.seed, without=plan.without)
    if cluster.voters and has("observers-disks") is not None:
        cluster.world.refetching = frozenset(range(cluster.voters, brokers))
    if has("racks") is not None:
        topology.assign_racks(cluster)
    nemesis = Nemesis(
        cluster,
        plan.kinds,
        plan.only,
        PARTICULAR if has("compaction") is not None else (),
        SELDOM,
        FOLDERED if has("folders") is not None else (),
        _later(plan),
    )
    return cluster, nemesis


def _later(plan: Plan) -> dict[str, Random]:
    """Return the later kinds of faults that the seed has, with their random generators."""
    has = partial(dice_of, plan.seed, without=plan.without)
    possible = (kind for kind in DRAWN if all(has(part) is not None for part in NEEDS.get(kind, ())))
    return {kind: dice for kind in possible if (dice := has(kind)) is not None}


def is_moving(plan: Plan) -> bool:
    """Whether partitions move between brokers, by the plan or by the seed."""
    return plan.moves or dice_of(plan.seed, "moves", plan.without) is not None


def drive(cluster: Cluster, nemesis: Nemesis, plan: Plan) -> None:
    """Run the safety phase, in which faults occur, then the liveness phase, in which everything must recover."""
    with _in_time(cluster):
        cluster.start()
        workload = Workload(cluster, partitions=plan.partitions, without=plan.without, moves=is_moving(plan))
        workload.start()
    nemesis.inject_next_fault()
    for _ in range(SCANS):
        cluster.run(plan.seconds / SCANS)
        cluster.suite.scan(cluster.world)
    workload.stop()
    nemesis.end()
    workload.settle()


@contextmanager
def _in_time(cluster: Cluster) -> Iterator[None]:
    """No message is late: where one may be later than a quorum waits for its leader, sessions and leaders end all the
    time, and no broker or topic need come to be there."""
    weather = cluster.world.faults.weather
    chance = weather.tail_chance
    if cluster.voters and weather.tail[1] >= DEFAULTS.fetch_timeout_ms * MILLI:
        weather.tail_chance = 0.0
    yield
    weather.tail_chance = chance


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def run(plan: Plan, prepared: Callable[[Cluster], None] | None = None) -> Outcome:
    """Run the plan from start to end; the outcome contains a violation. `prepared` is called before anything starts, to
    watch the run or to record messages.
    """
    cluster, nemesis = prepare(plan)
    if prepared is not None:
        prepared(cluster)
    violation = ""
    try:
        with probed(cluster.world.count), _collecting_rarely():
            drive(cluster, nemesis, plan)
    except Violation as found:
        violation = str(found)
    except Exception as found:  # noqa: BLE001  (whatever broke is what was looked for)
        violation = str(cluster.world.violation(str(found) or repr(found)))
    world, ghosts = cluster.world, cluster.suite.ghosts
    return Outcome(
        plan,
        world.trace.digest,
        world.micros / SECOND,
        world.trace.step,
        sum(producer.acked for producer in cluster.producers),
        dict(sorted(world.counts.items())),
        dict(nemesis.struck),
        len(ghosts.with_losses()),
        violation,
        world.meter.most,
        tuple(world.meter.slow),
    )


def run_timed(plan: Plan, prepared: Callable[[Cluster], None] | None = None) -> Outcome:
    """As `run`, but no input may take too much processor time (I49): if one does, the seed is run again."""
    outcome = run(plan, prepared)
    if not outcome.ok:
        return outcome
    return replace(outcome, violation=costs.describe_slow(outcome.slow, lambda: run(plan).slow))


def run_seed(seed: int) -> Outcome:
    """Run the seed with everything as it draws it."""
    return run(Plan(seed))
