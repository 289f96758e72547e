"""Rows 16 to 18: Spark reads six partitions of a three-broker Tidelog, our source beside Spark's own connector: in the
column of Kafka is what that connector did on the same topic. All columns of all rows are read and dropped.

One session, local[2], one unmeasured pass each, then in turns. A stream starts anew in each pass, with a checkpoint of
its own, and its time is that of the whole query.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.loads.librdkafka import CALL_RECORDS, Librdkafka
from bench.loads.spark import session
from bench.measure import PASSES, Measure, Target
from bench.sides import Tidelog
from bench.wire import fresh_topic

PARTITIONS, BROKERS = 6, 3
FORMATS = {"Tidelog": "tidelog", "Kafka": "kafka"}
TOPIC = "read"

Read = Callable[[Any, str, dict[str, str]], None]


def small(scale: float) -> Iterator[Measure]:
    yield _measured("16", "Spark batch, 5 M records of 100 B, beside Spark's connector", 5_000_000 * scale, 100, _batch)


def large(scale: float) -> Iterator[Measure]:
    yield _measured("17", "Spark batch, 1 M records of 1 KB, beside Spark's connector", 1_000_000 * scale, 1000, _batch)


def stream(scale: float) -> Iterator[Measure]:
    what = "Spark stream of what is there, 5 M records of 100 B, beside Spark's connector"
    yield _measured("18", what, 5_000_000 * scale, 100, _stream)


def _batch(spark: Any, name: str, options: dict[str, str]) -> None:
    spark.read.format(name).options(**options).load().write.format("noop").mode("overwrite").save()


def _stream(spark: Any, name: str, options: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        frame = spark.readStream.format(name).options(**options, startingOffsets="earliest").load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        assert query.exception() is None


def _measured(row: str, what: str, wanted: float, size: int, read: Read) -> Measure:
    records = max(int(wanted), 100_000) // CALL_RECORDS * CALL_RECORDS
    samples: dict[str, list[float]] = {side: [] for side in FORMATS}
    cold: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder,
        Tidelog(Path(folder), BROKERS, {}) as brokers,
        session() as spark,
    ):
        fresh_topic(brokers.ports[0], TOPIC, PARTITIONS, BROKERS)
        Librdkafka(records, size).run(brokers.bootstrap, TOPIC)
        options = {"kafka.bootstrap.servers": brokers.bootstrap, "subscribe": TOPIC}
        for name in FORMATS.values():
            assert spark.read.format(name).options(**options).load().count() == records
        for number in range(PASSES + 1):
            for side, name in FORMATS.items():
                begin = time.perf_counter()
                read(spark, name, options)
                rate = records / (time.perf_counter() - begin)
                print(f"  {name:8} {number or 'warm'}  {rate:,.0f} records/s", flush=True)
                samples[side] += [rate] * bool(number)
                cold.setdefault(side, rate)
    return Measure(row, what, "records/s", Target(1, at_least=True), samples, cold)
