"""What applications were told about records, one by one, as they see it: values and offsets, no batches.

I10, I25 (Q): what was acknowledged with acks=all is read where its producer was told.
I22 (S): a consumer reads only what was sent to that partition, and at an offset the same whenever it reads it.
I26 (Q): what an idempotent producer sent is read at one offset only, unless it had to begin its numbers anew (KIP-360).
"""

from dataclasses import dataclass, field

from tidelog.model import TopicPartition
from tidelog.sim.checks.ghosts import Ghosts


@dataclass(slots=True)
class Sent:
    """One value. `acknowledged` is the offset that its producer was told with acks=all, -1 without; `once`: it may
    stand in the log only once."""

    once: bool
    acknowledged: int = -1
    offsets: set[int] = field(default_factory=set)


class Told:
    """Values are unique in a run."""

    def __init__(self, ghosts: Ghosts) -> None:
        self.ghosts = ghosts
        self.sent: dict[TopicPartition, dict[bytes, Sent]] = {}
        self._read: dict[TopicPartition, dict[int, bytes]] = {}

    def __repr__(self) -> str:
        return f"Told({sum(map(len, self.sent.values()))} values)"

    def send(self, name: TopicPartition, value: bytes, *, once: bool) -> None:
        self.sent.setdefault(name, {})[value] = Sent(once)

    def acknowledge(self, name: TopicPartition, value: bytes, offset: int) -> None:
        self.sent[name][value].acknowledged = offset

    def may_repeat(self, name: TopicPartition, value: bytes) -> None:
        """Its producer sent it again under other numbers."""
        self.sent[name][value].once = False

    def read(self, name: TopicPartition, offset: int, value: bytes) -> None:
        sent = self.sent.get(name, {}).get(value)
        assert sent is not None, f"I22: at {offset} {name} holds {value!r}, which nobody sent there"
        sent.offsets.add(offset)
        known = self._read.setdefault(name, {}).setdefault(offset, value)
        same = known == value or self.ghosts.of(name).loss_allowed
        assert same, f"I22: at {offset} {name} reads {value!r}, where it had read {known!r}"

    def check(self, name: TopicPartition, end: int) -> None:
        """Everything below `end` was read, from the first offset on."""
        if self.ghosts.of(name).loss_allowed:
            return
        for value, sent in self.sent.get(name, {}).items():
            told = sent.acknowledged
            assert told < 0 or told >= end or told in sent.offsets, (
                f"I10: {value!r} was acknowledged at {told} of {name}, and is read at {sorted(sent.offsets)}"
            )
            assert len(sent.offsets) < 2 or not sent.once, (
                f"I26: {name} holds {value!r} more than once, at {sorted(sent.offsets)}"
            )
