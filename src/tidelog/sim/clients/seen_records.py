"""What applications sent, received and were acknowledged, record by record: values and offsets, no batches.

I10, I25 (Q): a record acknowledged with acks=all is read at the offset reported to its producer.

I22 (S): consumers read only what was sent to that partition, and at an offset always the same.

I26 (Q): what an idempotent producer sent is read at one offset only, unless it had to reset its sequences (KIP-360).
"""

from dataclasses import dataclass, field
from zlib import crc32

from tidelog.client.results import ConsumerRecord
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.checks.suite import Suite


@dataclass(slots=True)
class Sent:
    """One value. `acknowledged` is the offset reported with acks=all, -1 without; `once`: it may be in the log only
    once.
    """

    once: bool
    acknowledged: int = -1
    offsets: set[int] = field(default_factory=set)


class SeenRecords:
    """Values are unique in a run. `free` are topics without any promise, because they are deleted meanwhile."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.free: set[str] = set()
        self._sent: dict[TopicPartition, dict[bytes, Sent]] = {}

    def __repr__(self) -> str:
        return f"SeenRecords({sum(map(len, self._sent.values()))} values)"

    # Producers.

    def send(self, name: TopicPartition, value: bytes, *, once: bool) -> None:
        self._sent.setdefault(name, {})[value] = Sent(once)

    def acknowledge(self, name: TopicPartition, value: bytes, offset: int) -> None:
        self._sent[name][value].acknowledged = offset

    def may_repeat(self, name: TopicPartition, value: bytes) -> None:
        """Allow a repetition: the producer sent the value again with other sequences."""
        self._sent[name][value].once = False

    # Consumers.

    def read(self, name: TopicPartition, record: ConsumerRecord) -> None:
        if name.topic in self.free:
            return
        value = record.value or b""
        sent = self._sent.get(name, {}).get(value)
        assert sent is not None, f"I22: at {record.offset} {name} holds {value!r}, which nobody sent there"
        sent.offsets.add(record.offset)
        content = crc32(b"%d %b" % (record.timestamp, value))
        self.suite.served(name, record.offset, record.offset + 1, record.leader_epoch, content)

    def cut(self, name: TopicPartition, position: int) -> None:
        """Check a consumer that had read up to `position` and learned that the log ends below."""
        if name.topic not in self.free:
            self.suite.read_refused(name, position, ErrorCode.OFFSET_OUT_OF_RANGE)

    # The end.

    def check(self, name: TopicPartition, end: int) -> None:
        """Check that everything below `end` was read, from the first offset that no replica has deleted."""
        if name.topic in self.free or self.suite.ghosts.of(name).loss_allowed:
            return
        aged = self.suite.ghosts.aged
        start = self.suite.deleted_to(name) if aged else 0
        for value, sent in self._sent.get(name, {}).items():
            offset = sent.acknowledged
            assert offset < start or offset >= end or offset in sent.offsets, (
                f"I10: {value!r} was acknowledged at {offset} of {name}, and is read at {sorted(sent.offsets)}"
            )
            assert len(sent.offsets) < 2 or not sent.once or aged, (
                f"I26: {name} holds {value!r} more than once, at {sorted(sent.offsets)}"
            )
