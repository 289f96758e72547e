"""Row 20: the replica audit over three replicas of 1 KB records: in one process, on Spark with one core, and with two.

Both sides' logs are in Kafka's format, so both are audited, from the folders of their running brokers: what the table
has in Kafka's column is the same audit of Kafka's logs. It must find nothing.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator

from bench.loads.librdkafka import Librdkafka
from bench.measure import PASSES, Measure, Target, pair
from bench.sides import Side
from bench.wire import NotYet, fresh_topic, patiently
from tidelog.audit.core.report import Report
from tidelog.audit.io import folders, plan
from tidelog.audit.io.run import Run, audit, run_locally

BROKERS = 3
PARTITIONS = 4
RECORDS, SIZE = 700_000, 1000
TOPIC = "audited"
CORES = (1, 2)

Rates = dict[str, list[float]]
"""GB/s of the passes, by side."""


def replicas(scale: float) -> Iterator[Measure]:
    records = max(int(RECORDS * scale), 10_000) // 10_000 * 10_000
    with pair(BROKERS) as sides:
        for side in sides:
            fresh_topic(side.ports[0], TOPIC, PARTITIONS, BROKERS)
            Librdkafka(records, SIZE).run(side.bootstrap, TOPIC)
            patiently(_copied, side)
        local = _measured(sides, run_locally, time.process_time)
        on_cores = {cores: _on_spark(sides, cores) for cores in CORES}
    one, two = on_cores[1], on_cores[2]
    growth = {side: [high / low for low, high in zip(one[side], two[side], strict=True)] for side in one}
    yield Measure("20", "replica audit, one process", "GB/s of CPU time", Target(1, at_least=True, ratio=False), local)
    yield Measure("20", "replica audit, Spark with one core", "GB/s", Target(0.5, at_least=True, ratio=False), one)
    yield Measure("20", "replica audit, Spark with two cores", "GB/s", None, two)
    yield Measure(
        "20", "replica audit, growth from one core to two", "x", Target(1.7, at_least=True, ratio=False), growth
    )


def _report(side: Side, run: Run) -> Report:
    given = folders.find([side.data(number) for number in range(BROKERS)])
    found = audit(plan.of_folders(given, topics=[TOPIC]), run)
    assert len(found.partitions) == PARTITIONS
    return found


def _copied(side: Side) -> None:
    """Every replica has everything."""
    for partition in _report(side, run_locally).partitions:
        if len({(each.end, each.bytes) for each in partition.replicas}) > 1 or len(partition.replicas) < BROKERS:
            raise NotYet(f"{partition.name} is not copied yet")


def _measured(sides: list[Side], run: Run, clock: Callable[[], float] = time.perf_counter) -> Rates:
    """Each side once unmeasured, then in turns."""
    rates: Rates = {side.name: [] for side in sides}
    for number in range(PASSES + 1):
        for side in sides:
            begin = clock()
            found = _report(side, run)
            seconds = clock() - begin
            assert found.is_good, [each.sentence for each in found.findings]
            if number:
                rates[side.name].append(found.bytes / seconds / 1e9)
    return rates


def _on_spark(sides: list[Side], cores: int) -> Rates:
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from tidelog.spark.audit_session import running

    with running(f"local[{cores}]") as run:
        return _measured(sides, run)
