"""Where a consumer stands in each of its partitions."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from tidelog.model import NO_EPOCH, TopicPartition

EARLIEST = -2
LATEST = -1


class Need(Enum):
    """What is missing before a partition can be fetched."""

    NOTHING = auto()
    COMMITTED = auto()
    """The group's committed offset."""
    OFFSET = auto()
    """The offset for `reset_to`."""


@dataclass(slots=True)
class PartitionPosition:
    """One partition. `offset` is of the next record to hand out, -1 until it is known. `turn` changes whenever the
    place is moved by hand, and when the partition is assigned anew: an answer to a question of an older turn is of no
    use."""

    offset: int = -1
    epoch: int = NO_EPOCH
    """The leader epoch of the last record read: what a truncation is noticed by."""
    need: Need = Need.COMMITTED
    reset_to: int = LATEST
    turn: int = 0
    is_paused: bool = False
    is_busy: bool = False
    """A request about it is on its way."""
    retry_at: int = 0
    failures: int = 0
    read_replica: int = -1
    read_replica_until: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1

    def move(self, offset: int, epoch: int = NO_EPOCH) -> None:
        self.offset = offset
        self.epoch = epoch
        self.need = Need.NOTHING
        self._moved()

    def reset(self, to: int) -> None:
        """Find the offset for a timestamp, EARLIEST or LATEST."""
        self.offset = -1
        self.reset_to = to
        self.need = Need.OFFSET
        self._moved()

    def _moved(self) -> None:
        self.turn += 1
        self.is_busy = False
        self.retry_at = 0
        self.failures = 0
        self.read_replica = -1

    def failed(self, now_ms: int, backoff_ms: int, longest_ms: int) -> None:
        """Try again after a wait that doubles."""
        self.retry_at = now_ms + min(backoff_ms << min(self.failures, 10), longest_ms)
        self.failures += 1

    def wants(self, need: Need, now_ms: int) -> bool:
        return self.need is need and not self.is_busy and now_ms >= self.retry_at


class Positions:
    """The partitions that are assigned, in the order of their names."""

    def __init__(self) -> None:
        self.places: dict[TopicPartition, PartitionPosition] = {}
        self._last_turn = 0

    def __repr__(self) -> str:
        return f"<Positions { ({str(p): place.offset for p, place in self.places.items()}) }>"

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Exactly these; those that stay keep their places. A new one begins with a turn that none had before it: what
        was asked for the same partition in an earlier assignment may still be answered."""
        self._last_turn = 1 + max([self._last_turn, *(place.turn for place in self.places.values())])
        self.places = {
            partition: self.places.get(partition) or PartitionPosition(turn=self._last_turn)
            for partition in sorted(partitions)
        }

    def known(self) -> dict[TopicPartition, PartitionPosition]:
        """Those with an offset: what can be committed."""
        return {partition: place for partition, place in self.places.items() if place.offset >= 0}
