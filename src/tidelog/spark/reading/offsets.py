"""Offsets of a query: what its checkpoint holds, how far a micro-batch reads, and how that is cut into tasks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from tidelog.model import TopicPartition

Offsets = dict[TopicPartition, int]
Json = dict[str, Any]

IDS = "@ids"
EPOCHS = "@epochs"
"""Keys besides the topics, whose names have no '@': topic IDs, and the leader epochs at which the offsets were looked
up."""


@dataclass(frozen=True)
class QueryOffset:
    """How far a query has read: each partition's next offset, with topic IDs and leader epochs where known."""

    offsets: Offsets = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    epochs: dict[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "QueryOffset":
        ids = {topic: str(text) for topic, text in value.get(IDS, {}).items()}
        return cls(from_json(value), ids, from_json(value.get(EPOCHS, {})))

    def to_json(self) -> Json:
        """In the format of Spark's own connector, `{"topic": {"0": 23}}`, with IDs and epochs added."""
        found = to_json(self.offsets)
        if self.ids:
            found[IDS] = dict(sorted(self.ids.items()))
        if self.epochs:
            found[EPOCHS] = to_json(self.epochs)
        return found

    def moved(self, offsets: Offsets, before: "QueryOffset") -> "QueryOffset":
        """A copy with lower offsets. A partition that did not move keeps the epoch of `before`, since a new leader
        alone is not new data."""
        epochs = {
            name: before.epochs[name]
            if offsets[name] == before.offsets.get(name) and name in before.epochs
            else self.epochs[name]
            for name in offsets
            if name in self.epochs
        }
        return QueryOffset(offsets, self.ids, epochs)


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
    """End offsets at most `limit` offsets beyond the starts in total, shared in proportion to what each partition has
    left. A partition with anything left moves by at least one, so that small ones do not starve."""
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


class Span(NamedTuple):
    """Offsets [start, end) of one partition."""

    name: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def spans(start: Mapping[TopicPartition, int], end: Offsets) -> list[Span]:
    """The ranges to read between two offsets; none for a partition that has not moved."""
    return [Span(name, start[name], offset) for name, offset in sorted(end.items()) if offset > start[name]]


def cut(whole: list[Span], at_least: int | None, at_most: int | None) -> list[Span]:
    """Cut into at least `at_least` tasks, in proportion to the sizes, of at most `at_most` offsets each."""
    found = whole
    if at_most is not None:
        found = [part for span in whole for part in _divided(span, -(-span.size // at_most))]
    if at_least is None or len(found) >= at_least or not found:
        return found
    total = sum(span.size for span in found)
    small = [span for span in found if _share(span.size, total, at_least) == 1]
    rest = total - sum(span.size for span in small)
    left = max(at_least - len(small), 1)
    return [part for span in found for part in _divided(span, 1 if span in small else _share(span.size, rest, left))]


def _share(size: int, total: int, tasks: int) -> int:
    return max(int(size / total * tasks + 0.5), 1)


def _divided(span: Span, parts: int) -> Iterable[Span]:
    """As even as can be; the last takes what is over."""
    edges = [span.start + span.size * number // parts for number in range(parts + 1)]
    return [Span(span.name, a, b) for a, b in pairwise(edges) if b > a]
