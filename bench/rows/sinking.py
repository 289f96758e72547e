"""Row 19: Spark writes 2 M records of 100 B to six partitions of a three-broker Tidelog, our sink beside Spark's own
connector: in the column of Kafka is what that connector did on the same brokers. Exactly once it has no equal; its rate
at least once is what ours is held against.

What is written is in Spark's memory before, so that only writing is measured; each pass has a topic of its own. One
session, local[2], one unmeasured pass each, then in turns. Row 23: the same for small micro-batches.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.loads.spark import session
from bench.measure import PASSES, Measure, Target
from bench.sides import Tidelog
from bench.wire import fresh_topic

RECORDS, SIZE = 2_000_000, 100
PARTITIONS, BROKERS = 6, 3
TASKS = 4
WAYS: dict[str, tuple[str, dict[str, str]]] = {
    "connector": ("kafka", {}),
    "at least once": ("tidelog", {}),
    "exactly once": ("tidelog", {"exactlyOnce": "true"}),
}


def sink(scale: float) -> Iterator[Measure]:
    records = max(int(RECORDS * scale), 100_000)
    with (
        tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder,
        Tidelog(Path(folder), BROKERS, {}) as brokers,
        session() as spark,
    ):
        found = _passes(spark, brokers, records)
    yield _measure("Spark sink, 2 M records of 100 B, beside Spark's connector", found, "at least once", 1)
    yield _measure("Spark sink exactly once, beside Spark's connector at least once", found, "exactly once", 0.7)


def _measure(what: str, found: dict[str, list[float]], ours: str, bound: float) -> Measure:
    samples = {"Tidelog": found[ours][1:], "Kafka": found["connector"][1:]}
    cold = {"Tidelog": found[ours][0], "Kafka": found["connector"][0]}
    return Measure("19", what, "records/s", Target(bound, at_least=True), samples, cold)


def _passes(spark: Any, brokers: Tidelog, records: int) -> dict[str, list[float]]:
    """Records a second by way; the first pass is the unmeasured one."""
    value = f"cast(lpad(cast(id as string), {SIZE}, 'x') as binary) as value"
    frame = spark.range(0, records, 1, TASKS).selectExpr(value).cache()
    assert frame.count() == records
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(PASSES + 1):
        for way, (name, options) in WAYS.items():
            topic = f"written-{number}-{way.replace(' ', '-')}"
            fresh_topic(brokers.ports[0], topic, PARTITIONS, BROKERS)
            writer = frame.write.format(name).mode("append").option("kafka.bootstrap.servers", brokers.bootstrap)
            begin = time.perf_counter()
            writer.option("topic", topic).options(**options).save()
            found[way].append(records / (time.perf_counter() - begin))
            print(f"  {way:14} {number or 'warm'}  {found[way][-1]:,.0f} records/s", flush=True)
    return found


SMALL, BATCHES, SKIPPED = 1_000, 30, 10
TASKS_OF_SMALL = (1, 6, 24)


def small_batches(scale: float) -> Iterator[Measure]:
    """Streams of micro-batches of 1,000 rows of 100 B, in 1, 6 and 24 tasks: the median time of a batch, as Spark
    reports it. The first batches of each query are not measured; Spark's own source makes the rows in the JVM."""
    del scale
    with (
        tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder,
        Tidelog(Path(folder), BROKERS, {}) as brokers,
        session() as spark,
    ):
        for tasks in TASKS_OF_SMALL:
            found: dict[str, list[float]] = {way: [] for way in WAYS}
            for number in range(PASSES + 1):
                for way in WAYS:
                    found[way].append(_latency_ms(spark, brokers, tasks, way, number))
                    print(f"  {tasks} tasks  {way:14} {number or 'warm'}  {found[way][-1]:,.0f} ms", flush=True)
            for way, bound in (("at least once", 1.0), ("exactly once", 1 / 0.7)):
                what = f"Spark sink {way}, micro-batch of 1,000 rows in {tasks} tasks, p50"
                samples = {"Tidelog": found[way][1:], "Kafka": found["connector"][1:]}
                cold = {"Tidelog": found[way][0], "Kafka": found["connector"][0]}
                yield Measure("23", what, "ms", Target(round(bound, 2)), samples, cold)


def _latency_ms(spark: Any, brokers: Tidelog, tasks: int, way: str, number: int) -> float:
    name, options = WAYS[way]
    topic = f"small-{tasks}-{number}-{way.replace(' ', '-')}"
    fresh_topic(brokers.ports[0], topic, PARTITIONS, BROKERS)
    rows = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=SMALL, numPartitions=tasks).load()
    frame = rows.selectExpr(f"cast(lpad(cast(value as string), {SIZE}, 'x') as binary) as value")
    writer = frame.writeStream.format(name).option("kafka.bootstrap.servers", brokers.bootstrap).options(**options)
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as checkpoint:
        query = writer.option("topic", topic).option("checkpointLocation", checkpoint).start()
        while (query.lastProgress or {"batchId": -1})["batchId"] < BATCHES:
            query.awaitTermination(0.1)
        times = [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["batchId"] >= SKIPPED]
        query.stop()
    return float(statistics.median(times))
