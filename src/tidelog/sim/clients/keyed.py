"""A producer of keys: each record replaces the one before of its key; some remove it (tombstones)."""

from collections.abc import Sequence

from tidelog.client.options import ProducerOptions
from tidelog.model import TopicPartition
from tidelog.sim.clients.producer import Pace, Producer
from tidelog.sim.clients.seen_records import SeenRecords
from tidelog.sim.world import World

TOMBSTONES = 0.15


class KeyedProducer(Producer):
    """`keys`: how many. Its batches fit into the smallest segments that there are."""

    def __init__(
        self,
        world: World,
        seen_records: SeenRecords,
        name: str,
        partitions: Sequence[TopicPartition],
        *,
        keys: int,
        pace: Pace,
    ) -> None:
        options = ProducerOptions(client_id=name, linger_ms=20, batch_size=400, request_timeout_ms=3_000)
        super().__init__(world, seen_records, name, partitions, options=options, pace=pace)
        self.keys = [b"key-%d" % number for number in range(keys)]

    def send(self, value: bytes | None = None, name: TopicPartition | None = None) -> None:
        random, now = self.process.random, self.process.now()
        name = name or random.choice(self.partitions)
        value = self._value() if value is None else value
        key, is_tombstone = random.choice(self.keys), random.random() < TOMBSTONES
        self.seen_records.send(name, value, once=True)
        ticket, effects = self.process.machine.send(
            name.topic, None if is_tombstone else value, now, key=key, partition=name.partition
        )
        self._open[ticket] = (name, value)
        self.process.carry_out(effects)
