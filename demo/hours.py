"""Runs the pipeline flights on the same topic: it writes hours to another topic, exactly once, and compares them."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from table import Engine, Failed, Row, columns

from tidelog.shell.transport import Consumer, Producer
from tidelog.spark.pipelines.flights import JOINED, PIPELINE, packaged
from tidelog.spark.pipelines.hourly_delays import COUNTS, Hour
from tidelog.spark.pipelines.plan import Plan

TICK = b'{"time_hour":"2014-06-01T00:00:00Z"}'
"""Sent after all flights: it closes the last hours."""
DELAY = "60 days"
"""A partition whose leader is dead falls behind by what a producer buffers: some weeks of flights."""
MOST_ROWS_A_BATCH = "60000"
POLL_S = 1.0

Key = tuple[str, str, str]
Values = tuple[Any, ...]


class Hours:
    """The running first stage of the pipeline."""

    def __init__(self, engine: Engine, folder: Path, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        options = PIPELINE.complete({"topic": topic, "delay": DELAY, "batch": MOST_ROWS_A_BATCH})
        plan = Plan(bootstrap, folder / "pipeline", options)
        self._results, self._dead = plan["results"], plan["dead"]
        self._query = PIPELINE.stages(engine.session, plan)[0].start()

    def _check(self) -> None:
        if not self._query.isActive:
            raise Failed(f"the pipeline flights ended: {self._query.exception()}")

    def finish(self, within_s: float, meanwhile: Callable[[], None]) -> None:
        """Close the last hours, and wait until they are written."""
        with Producer(self._bootstrap) as producer:
            producer.send(self._topic, TICK)
            if not all(delivery.is_acknowledged for delivery in producer.flush()):
                raise Failed("the last record was not acknowledged")
        wait = threading.Thread(target=self._query.processAllAvailable, daemon=True)
        wait.start()
        deadline = time.monotonic() + within_s
        while wait.is_alive():
            meanwhile()
            if time.monotonic() > deadline:
                raise Failed(f"the pipeline flights did not finish within {within_s:.0f} s")
            time.sleep(0.2)
        self._check()
        self._query.stop()

    def compare(self, rows: Sequence[Row]) -> tuple[int, int, int]:
        """Return (hours that match the input, hours missing or wrong, surplus hours and dead letters)."""
        wanted = Counter(expected(rows).items())
        found = Counter(self._read_results())
        same = sum((found & wanted).values())
        return same, wanted.total() - same, found.total() - same + len(_read(self._bootstrap, self._dead))

    def _read_results(self) -> list[tuple[Key, Values]]:
        """Read the committed records of the topic of results."""
        rows = map(json.loads, _read(self._bootstrap, self._results))
        self._rows = [(_key(row), tuple(row.get(name) for name in (*COUNTS, *JOINED))) for row in rows]
        return self._rows

    def most_delayed(self, count: int) -> list[tuple[str, int, float]]:
        """Return (carrier, arrivals, mean delay in minutes) of the rows that `compare` read, the worst first."""
        arrivals, minutes = Counter[str](), Counter[str]()
        for (carrier, _, _), values in self._rows:
            arrivals[carrier] += values[COUNTS.index("arrived")]
            minutes[carrier] += values[COUNTS.index("arrival_delay")]
        means = [(carrier, known, minutes[carrier] / known) for carrier, known in arrivals.items() if known]
        return sorted(means, key=lambda row: -row[2])[:count]


def _key(row: dict[str, Any]) -> Key:
    return row["carrier"], row["origin"], row["hour"].replace(".000Z", "Z")


def _read(bootstrap: str, topic: str) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(bootstrap, isolation_level="read_committed") as consumer:
        partitions = consumer.partitions_of(topic)
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found += [record.value for record in consumer.poll(POLL_S, 5_000) if record.value is not None]
    return found


def expected(rows: Sequence[Row]) -> dict[Key, Values]:
    """Compute the hours of the input without Spark."""
    indexes = [list(columns()).index(name) for name in ("carrier", "origin", "time_hour", "dep_delay", "arr_delay")]
    hours: dict[Key, Hour] = {}
    for number, row in enumerate(rows):
        carrier, origin, hour, departure, arrival = (row.fields[index] for index in indexes)
        hours.setdefault((carrier, origin, hour), Hour()).add(str(number), departure, arrival)
    weather = _weather()
    nothing = (None,) * len(JOINED)
    return {key: (*hour.counts.values(), *weather.get(key[1:], nothing)) for key, hour in hours.items()}


def _weather() -> dict[tuple[str, str], Values]:
    import pandas as pd

    frame = pd.read_csv(packaged("weather.csv"), usecols=["origin", "time_hour", *JOINED], float_precision="round_trip")
    known = frame.astype(object).where(frame.notna(), None)
    return {(row["origin"], row["time_hour"]): tuple(row[name] for name in JOINED) for row in known.to_dict("records")}
