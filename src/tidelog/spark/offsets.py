"""Places in topics: what Spark keeps in its checkpoint, and how far a micro-batch may go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.model import TopicPartition

Offsets = dict[TopicPartition, int]
Json = dict[str, Any]

IDS = "@ids"
EPOCHS = "@epochs"
"""Beside the topics, whose names have no '@': their ids, and the leader epochs at which the offsets were looked up."""


@dataclass(frozen=True)
class Point:
    """How far a query has read: each partition's next offset. Ids and epochs are known of some."""

    offsets: Offsets = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    epochs: dict[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Point":
        ids = {topic: str(text) for topic, text in value.get(IDS, {}).items()}
        return cls(from_json(value), ids, from_json(value.get(EPOCHS, {})))

    def to_json(self) -> Json:
        """As Spark's own connector writes it, `{"topic": {"0": 23}}`, with ids and epochs beside."""
        found = to_json(self.offsets)
        if self.ids:
            found[IDS] = dict(sorted(self.ids.items()))
        if self.epochs:
            found[EPOCHS] = to_json(self.epochs)
        return found

    def moved(self, offsets: Offsets, before: "Point") -> "Point":
        """This point with lower offsets. A partition that did not move keeps the epoch of `before`: a new leader alone
        is nothing new to read."""
        epochs = {
            name: before.epochs[name]
            if offsets[name] == before.offsets.get(name) and name in before.epochs
            else self.epochs[name]
            for name in offsets
            if name in self.epochs
        }
        return Point(offsets, self.ids, epochs)


def to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    """`{"topic": {"0": 23}}`."""
    found: Json = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(value: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The offsets of a checkpoint, or of Spark's progress."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in value.items()
        if not topic.startswith("@")
        for partition, offset in partitions.items()
    }


def limited(start: Offsets, end: Offsets, limit: int) -> Offsets:
    """Ends at most `limit` offsets beyond the starts in all, shared by how much each partition has left. A partition
    with anything left moves by at least one, or small ones would starve."""
    left = {name: offset - start[name] for name, offset in end.items() if offset > start[name]}
    total = sum(left.values())
    if total <= limit:
        return dict(end)
    found = {name: start[name] for name in end}
    budget = limit
    for name, size in sorted(left.items(), key=lambda item: item[1]):
        share = min(size, budget, max(1, limit * size // total))
        found[name] += share
        budget -= share
    return found
