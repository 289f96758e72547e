"""Row 19: Spark writes 2 M records of 100 B to six partitions of a three-broker Tidelog, our sink beside Spark's own
connector: in the column of Kafka is what that connector did on the same brokers. Exactly once it has no equal; its rate
at least once is what ours is held against.

What is written is in Spark's memory before, so that only writing is measured; each pass has a topic of its own. One
session, local[2], one unmeasured pass each, then in turns.
"""

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
