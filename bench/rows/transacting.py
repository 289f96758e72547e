"""Row 10: transactions of 100 records to three brokers, one after the other."""

import time
from collections.abc import Iterator
from itertools import count

from confluent_kafka import Producer

from bench.measure import Figures, Measure, Target, alternate, pair
from bench.sides import Side
from bench.wire import fresh_topic

TOPIC = "transactions"
PARTITIONS = 3
RECORDS = 100
SIZE = 100
TARGET = 1.5


def transactions(scale: float) -> Iterator[Measure]:
    with pair(3) as sides:
        for side in sides:
            fresh_topic(side.ports[0], TOPIC, PARTITIONS, side.brokers)
        found = alternate(sides, _Transactions(int(600 * scale)))
        yield found.measure(
            "rate", "10", "replication 3, librdkafka, transactions of 100 records", "transactions/s",
            Target(TARGET, at_least=True),
        )  # fmt: skip


class _Transactions:
    """A producer with an id of its own for each pass, so that none waits for the one before."""

    def __init__(self, number: int) -> None:
        self.number = max(number, 20)
        self._ids = count()

    def __call__(self, side: Side) -> Figures:
        producer = Producer(
            {"bootstrap.servers": side.bootstrap, "transactional.id": f"bench-{next(self._ids)}", "linger.ms": 0}
        )
        producer.init_transactions(60)
        value = bytes(SIZE)
        began = time.perf_counter()
        for _ in range(self.number):
            producer.begin_transaction()
            for record in range(RECORDS):
                producer.produce(TOPIC, value, partition=record % PARTITIONS)
            producer.commit_transaction(60)
        return {"rate": self.number / (time.perf_counter() - began)}
