"""A topic of keys that is compacted while faults occur, and whose `segment.bytes` changes; so do those of the internal
topics, so that they are compacted, too. `checks/compaction.py` checks what must stay (I31).
"""

from random import Random

from tidelog.model import INTERNAL_TOPICS, TopicPartition
from tidelog.sim.clients.admin import Admin
from tidelog.sim.clients.producer import KeyedProducer, Pace
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND

TOPIC = "keyed"
SEGMENT = "internal.segment.bytes"
"""`segment.bytes` without its lower bound."""

SIZES = (1_000, 1_000, 2_000, 8_000)
INTERNAL_SIZES = (5_000, 5_000, 10_000)
POLICIES = ("compact", "compact", "compact,delete")
KEYS = (3, 30, 300, 300)
RESIZES, READS = 0.7, 0.5
RESIZED = (2 * SECOND, 8 * SECOND)


def draw_properties(dice: Random) -> dict[str, str]:
    """Draw the brokers' options of a seed with compaction."""
    return {
        "log.cleaner.backoff.ms": dice.choice(("1000", "3000")),
        "log.cleaner.min.cleanable.ratio": dice.choice(("0.01", "0.3", "0.5")),
        "log.cleaner.delete.retention.ms": dice.choice(("100", "3000", "86400000")),
        "log.cleaner.io.max.bytes.per.second": dice.choice(("2000", "1.7976931348623157e308")),
        "log.cleaner.dedupe.buffer.size": dice.choice(("1000", "134217728")),
        "log.retention.check.interval.ms": dice.choice(("2000", "5000", "300000")),
        "log.segment.delete.delay.ms": dice.choice(("0", "1000", "60000")),
    }


class Compaction:
    def __init__(self, cluster: Cluster, dice: Random) -> None:
        self.cluster = cluster
        self.dice = dice
        self.names = [TopicPartition(TOPIC, number) for number in range(dice.choice((1, 1, 1, 2)))]
        self.policy = dice.choice(POLICIES)
        self.keys = dice.choice(KEYS)
        self.resizes = dice.random() < RESIZES
        self.is_read = dice.random() < READS
        self.gap = dice.choice((300, 500, 800)) * MILLI
        self.admin = Admin(cluster.world, "resizer")
        self.stopped = False
        cluster.seen_records.free.add(TOPIC)

    def __repr__(self) -> str:
        return f"<{self.policy} of {self.keys} keys in {len(self.names)} partitions>"

    def start(self) -> None:
        configs = {"cleanup_policy": self.policy, "internal_segment_bytes": str(max(SIZES))}
        if "delete" in self.policy:
            configs |= {"retention_bytes": self.dice.choice(("6000", "20000", "-1")), "retention_ms": "20000"}
        self.cluster.create(TOPIC, len(self.names), None, **configs)
        producer = KeyedProducer(
            self.cluster.world,
            self.cluster.seen_records,
            "keyed",
            self.names,
            keys=self.keys,
            pace=Pace(gap=(self.gap // 10, 2 * self.gap)),
        )
        self.cluster.attend(producer)
        if self.is_read:
            self.cluster.consume(*self.names)
        if self.resizes:
            self._resize_later()

    def stop(self) -> None:
        self.stopped = True

    def _resize_later(self) -> None:
        if not self.stopped:
            self.admin.process.later(RESIZED, self._resize)

    def _resize(self) -> None:
        topic = self.dice.choice((TOPIC, TOPIC, *sorted(INTERNAL_TOPICS)))
        size = self.dice.choice(SIZES if topic == TOPIC else INTERNAL_SIZES)
        self.admin.configure(topic, SEGMENT, str(size), lambda _: self._resize_later())
