"""A consumer's position in each of its partitions."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from tidelog.model import NO_EPOCH, TopicPartition

EARLIEST = -2
LATEST = -1


class Need(Enum):
    """What a partition needs before it can be fetched."""

    NOTHING = auto()
    COMMITTED = auto()
    """The group's committed offset."""
    OFFSET = auto()
    """The offset for `reset_to`."""


@dataclass(slots=True)
class PartitionPosition:
    """One partition. `offset` is that of the next record to return, -1 until it is known. `version` changes whenever
    the position is moved manually and when the partition is assigned anew: answers to requests of an older version are
    ignored."""

    offset: int = -1
    epoch: int = NO_EPOCH
    """The leader epoch of the last record read; it lets the leader detect truncation."""
    need: Need = Need.COMMITTED
    reset_to: int = LATEST
    version: int = 0
    is_paused: bool = False
    is_busy: bool = False
    """A request for it is in flight."""
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
        """Look up the offset for a timestamp, EARLIEST or LATEST."""
        self.offset = -1
        self.reset_to = to
        self.need = Need.OFFSET
        self._moved()

    def _moved(self) -> None:
        self.version += 1
        self.is_busy = False
        self.retry_at = 0
        self.failures = 0
        self.read_replica = -1

    def failed(self, now_ms: int, backoff_ms: int, longest_ms: int) -> None:
        """Retry after a wait that doubles."""
        self.retry_at = now_ms + min(backoff_ms << min(self.failures, 10), longest_ms)
        self.failures += 1

    def needs(self, need: Need, now_ms: int) -> bool:
        return self.need is need and not self.is_busy and now_ms >= self.retry_at


class Positions:
    """The assigned partitions, sorted."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, PartitionPosition] = {}
        self._last_version = 0

    def __repr__(self) -> str:
        return f"<Positions { ({str(p): position.offset for p, position in self.by_partition.items()}) }>"

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these; partitions that stay keep their positions. A new one gets a version that no earlier
        assignment used, because requests of an earlier assignment may still be answered."""
        self._last_version = 1 + max(
            [self._last_version, *(position.version for position in self.by_partition.values())]
        )
        self.by_partition = {
            partition: self.by_partition.get(partition) or PartitionPosition(version=self._last_version)
            for partition in sorted(partitions)
        }

    def known(self) -> dict[TopicPartition, PartitionPosition]:
        """The partitions with an offset, which can be committed."""
        return {partition: position for partition, position in self.by_partition.items() if position.offset >= 0}
