"""Rows 1, 2 and 8: records in a stream with acks=all, and what the brokers hold in memory afterwards."""

from collections.abc import Iterator

from bench.loads.java import ProducerPerformance
from bench.loads.librdkafka import Librdkafka
from bench.measure import Figures, Measure, Target, alternate, pair
from bench.sides import Side
from bench.wire import end_offsets, fresh_topic

SIZE = 100
TOPIC, JAVA_TOPIC = "stream", "java"


def one_broker(scale: float) -> Iterator[Measure]:
    with pair(1) as sides:
        _topics(sides, partitions=1)
        found = alternate(sides, _librdkafka(int(3_000_000 * scale)))
        yield found.measure(
            "rate", "1", "one broker, librdkafka, 100 B, 1 MB batches", "records/s", Target(1, at_least=True)
        )
        found = alternate(sides, _java(int(2_000_000 * scale)))
        yield found.measure(
            "rate", "1", "one broker, ProducerPerformance, 16 KB batches", "MB/s", Target(1.2, at_least=True)
        )


def three_brokers(scale: float) -> Iterator[Measure]:
    with pair(3) as sides:
        _topics(sides, partitions=3)
        found = alternate(sides, _librdkafka(int(2_000_000 * scale)))
        yield found.measure(
            "rate", "2", "replication 3, librdkafka, 100 B, 1 MB batches", "records/s", Target(1.5, at_least=True)
        )
        after = alternate(sides, _java(int(1_000_000 * scale)))
        yield after.measure(
            "rate", "2", "replication 3, ProducerPerformance, 16 KB batches", "MB/s", Target(2, at_least=True)
        )
        yield after.measure("resident", "8", "resident memory per broker after row 2", "MB", Target(100, ratio=False))


def _topics(sides: list[Side], partitions: int) -> None:
    for side in sides:
        for topic in (TOPIC, JAVA_TOPIC):
            fresh_topic(side.ports[0], topic, partitions, side.brokers)


def _librdkafka(records: int) -> "_Stream":
    return _Stream(Librdkafka(max(records, 10_000) // 10_000 * 10_000, SIZE), TOPIC)


def _java(records: int) -> "_Stream":
    return _Stream(ProducerPerformance(records, SIZE), JAVA_TOPIC)


class _Stream:
    """Run the client, check by the log end offsets that every record is there, and weigh the brokers."""

    def __init__(self, client: Librdkafka | ProducerPerformance, topic: str) -> None:
        self.client = client
        self.topic = topic

    def __call__(self, side: Side) -> Figures:
        before = end_offsets(side.ports[0], self.topic)
        found = self.client.run(side.bootstrap, self.topic)
        count = end_offsets(side.ports[0], self.topic) - before
        if count != self.client.records:
            raise RuntimeError(f"{side.name} stored {count} of {self.client.records} records")
        rate = count / found if isinstance(self.client, Librdkafka) else found
        return {"rate": rate, "resident": max(side.resident_mb())}
