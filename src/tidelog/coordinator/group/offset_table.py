"""The committed offsets of all groups of one shard, and the pending offsets: those of open transactions.

Pending offsets become valid when a marker commits them. Until then a fetch of stable offsets gets no older ones
(KIP-447), and the groups and offsets concerned do not expire.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.coordinator.group.records import NO_EXPIRY
from tidelog.coordinator.timeline import Timeline
from tidelog.model import TopicPartition
from tidelog.wire.messages.groups.group_records import OffsetCommitValue


class Committed(NamedTuple):
    """A committed offset. Times are wall milliseconds; only old clients set `expire_timestamp`. `record_offset` is the
    offset of its record in the log: of two commits the later record wins, even if the earlier one becomes valid later,
    with its transaction."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: bytes
    record_offset: int = -1


def committed_from(value: OffsetCommitValue, record_offset: int = -1) -> Committed:
    return Committed(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
        record_offset,
    )


def is_expired(committed: Committed, base_timestamp: int, wall: int, retention_ms: int) -> bool:
    """Offsets expire after the retention time, counted from `base_timestamp`, or at the time that the request named."""
    if committed.expire_timestamp != NO_EXPIRY:
        return wall >= committed.expire_timestamp
    return wall - base_timestamp >= retention_ms


class OffsetTable:
    """Group → topic-partition → committed offset, in two views: the newest for writers, the committed for readers."""

    def __init__(self) -> None:
        self._groups: dict[str, Timeline[TopicPartition, Committed]] = {}
        self._changes: deque[tuple[int, str]] = deque()

    def __repr__(self) -> str:
        return f"<OffsetTable of {len(self._groups)} groups>"

    def set(self, group_id: str, partition: TopicPartition, committed: Committed | None, offset: int) -> None:
        """Replay a commit, or a tombstone, at this log offset."""
        self._groups.setdefault(group_id, Timeline()).set(partition, committed, offset)
        self._changes.append((offset, group_id))

    def newest(self, group_id: str) -> dict[TopicPartition, Committed]:
        """Do not modify the result."""
        timeline = self._groups.get(group_id)
        return {} if timeline is None else timeline.newest

    def committed(self, group_id: str, partition: TopicPartition) -> Committed | None:
        timeline = self._groups.get(group_id)
        return None if timeline is None else timeline.committed(partition)

    def all_committed(self, group_id: str) -> dict[TopicPartition, Committed]:
        timeline = self._groups.get(group_id)
        return {} if timeline is None else dict(timeline.committed_items())

    def with_topic(self, topic: str) -> Iterator[tuple[str, TopicPartition, Committed]]:
        """Every newest offset of the topic's partitions, by group."""
        for group_id, timeline in self._groups.items():
            for partition, committed in timeline.newest.items():
                if partition.topic == topic:
                    yield group_id, partition, committed

    def commit(self, high_watermark: int) -> None:
        while self._changes and self._changes[0][0] < high_watermark:
            group_id = self._changes.popleft()[1]
            timeline = self._groups.get(group_id)
            if timeline is None:
                continue
            timeline.commit(high_watermark)
            if timeline.is_empty:
                del self._groups[group_id]

    def snapshot(self) -> dict[str, dict[TopicPartition, Committed]]:
        """The newest view of all groups that have offsets, for comparison."""
        return {group_id: dict(timeline.newest) for group_id, timeline in self._groups.items() if timeline.newest}


Positions = dict[tuple[str, TopicPartition], Committed]


class PendingOffsets:
    """Producer ID → its open transaction's offsets by group and partition."""

    def __init__(self) -> None:
        self._producers: dict[int, Positions] = {}

    def __repr__(self) -> str:
        return f"<PendingOffsets of {len(self._producers)} producers>"

    def add(self, producer_id: int, group_id: str, partition: TopicPartition, committed: Committed) -> None:
        self._producers.setdefault(producer_id, {})[group_id, partition] = committed

    def take(self, producer_id: int) -> Positions:
        """The producer's transaction ended: remove and return its offsets."""
        return self._producers.pop(producer_id, {})

    def drop(self, group_id: str, partition: TopicPartition) -> None:
        """The offset was deleted: no transaction may restore it."""
        for producer_id, positions in list(self._producers.items()):
            if positions.pop((group_id, partition), None) is not None and not positions:
                del self._producers[producer_id]

    def has(self, group_id: str, partition: TopicPartition) -> bool:
        return any((group_id, partition) in positions for positions in self._producers.values())

    def with_topic(self, topic: str) -> Iterator[tuple[str, TopicPartition, Committed]]:
        """Every pending offset of the topic's partitions, by group."""
        for positions in self._producers.values():
            for (group_id, partition), committed in positions.items():
                if partition.topic == topic:
                    yield group_id, partition, committed

    def of_group(self, group_id: str) -> set[TopicPartition]:
        return {
            partition for positions in self._producers.values() for group, partition in positions if group == group_id
        }
