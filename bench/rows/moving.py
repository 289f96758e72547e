"""Rows 5 and 6: a gigabyte read, a gigabyte written, and the brokers' CPU seconds for it."""

import os
import tempfile
from collections.abc import Iterator

from bench.loads.java import ConsumerPerformance
from bench.loads.librdkafka import Librdkafka
from bench.measure import Figures, Load, Measure, Target, alternate, pair
from bench.sides import Side
from bench.wire import fresh_topic

SIZE = 1000
RECORDS = 1_000_000
"""A gigabyte."""

TOPIC = "moved"


def reading(scale: float) -> Iterator[Measure]:
    records = _rounded(RECORDS * scale)
    with pair(1) as sides:
        for side in sides:
            fresh_topic(side.ports[0], TOPIC, 1, 1)
            Librdkafka(records, SIZE).run(side.bootstrap, TOPIC)
        found = alternate(sides, _read(records))
        yield found.measure(
            "rate", "5", "one broker, ConsumerPerformance, 1 KB records", "MB/s", Target(1, at_least=True)
        )
        yield found.measure("per GB", "5", "broker CPU to serve a consumer", "s/GB", Target(0.5))


def writing(scale: float) -> Iterator[Measure]:
    for brokers, share, bound, what in (
        (1, 1.0, 0.5, "broker CPU to store 1 KB records, one broker"),
        (3, 0.5, 0.3, "broker CPU to store 1 KB records, replication 3, summed"),
    ):
        with pair(brokers) as sides:
            for side in sides:
                fresh_topic(side.ports[0], TOPIC, brokers, brokers)
            found = alternate(sides, _written(_rounded(RECORDS * scale * share)))
            yield found.measure("per GB", "6", what, "s/GB", Target(bound))


def _read(records: int) -> Load:
    client = ConsumerPerformance(records)

    def load(side: Side) -> Figures:
        before = side.cpu_seconds()
        rate = client.run(side.bootstrap, TOPIC)
        return {"rate": rate, "per GB": _per_gb(side.cpu_seconds() - before, records)}

    return load


def _written(records: int) -> Load:
    client = Librdkafka(records, SIZE)

    def load(side: Side) -> Figures:
        os.sync()  # what the other side left unwritten is not this one's burden
        _take_memory(side.brokers * records * SIZE)
        before = side.cpu_seconds()
        seconds = client.run(side.bootstrap, TOPIC)
        return {"rate": records / seconds, "per GB": _per_gb(side.cpu_seconds() - before, records)}

    return load


def _take_memory(size: int) -> None:
    """Have the machine hold this much memory that is free. A virtual one gives free memory back to its host after some
    seconds, and whoever writes into the page cache next pays for getting it again: up to 0.6 s of CPU for a GB."""
    piece = bytes(1 << 20)
    with tempfile.TemporaryFile() as file:
        for _ in range(size // len(piece) + 1):
            file.write(piece)


def _rounded(records: float) -> int:
    return max(int(records), 10_000) // 10_000 * 10_000


def _per_gb(cpu_seconds: float, records: int) -> float:
    return cpu_seconds * 1e9 / (records * SIZE)
