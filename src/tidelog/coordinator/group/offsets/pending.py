"""Positions that were committed in transactions which are still open: they count when a marker says so.

Until then nobody who asks for stable positions is told an older one (KIP-447), and the groups and positions concerned
do not expire.
"""

from collections.abc import Iterator

from tidelog.coordinator.group.offsets.table import Committed
from tidelog.model import TopicPartition

Positions = dict[tuple[str, TopicPartition], Committed]


class PendingOffsets:
    """Producer id → its open transaction's positions by group and partition."""

    def __init__(self) -> None:
        self._producers: dict[int, Positions] = {}

    def __repr__(self) -> str:
        return f"<PendingOffsets of {len(self._producers)} producers>"

    def add(self, producer_id: int, group_id: str, partition: TopicPartition, committed: Committed) -> None:
        self._producers.setdefault(producer_id, {})[group_id, partition] = committed

    def take(self, producer_id: int) -> Positions:
        """The producer's transaction ended: what it had."""
        return self._producers.pop(producer_id, {})

    def drop(self, group_id: str, partition: TopicPartition) -> None:
        """The position was deleted: no transaction may bring it back."""
        for producer_id, positions in list(self._producers.items()):
            if positions.pop((group_id, partition), None) is not None and not positions:
                del self._producers[producer_id]

    def has(self, group_id: str, partition: TopicPartition) -> bool:
        return any((group_id, partition) in positions for positions in self._producers.values())

    def with_topic(self, topic: str) -> Iterator[tuple[str, TopicPartition, Committed]]:
        """Every position in the topic's partitions, by group."""
        for positions in self._producers.values():
            for (group_id, partition), committed in positions.items():
                if partition.topic == topic:
                    yield group_id, partition, committed

    def of_group(self, group_id: str) -> set[TopicPartition]:
        return {
            partition for positions in self._producers.values() for group, partition in positions if group == group_id
        }
