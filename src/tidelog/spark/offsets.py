"""Places in topics: what Spark keeps in its checkpoint, and how far a micro-batch may go. Pure but for `Places`."""

from collections.abc import Iterable, Mapping

from tidelog.model import TopicPartition
from tidelog.shell.transport import Consumer
from tidelog.spark.options import NAMED_OFFSETS, Given

Offsets = dict[TopicPartition, int]
Json = dict[str, dict[str, int]]

METADATA_MAX_AGE_MS = 5_000
"""How long a running stream may overlook that a topic has new partitions."""
TOPIC_WITHIN_S = 5.0
"""How long a topic may take to appear."""


def to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    """`{"topic": {"0": 23}}`, as Spark's own connector writes it."""
    found: Json = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(value: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in value.items()
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


class Places:
    """Looks offsets up; one connection for as long as Spark keeps the reader."""

    def __init__(self, bootstrap: str, topics: Iterable[str]) -> None:
        self._bootstrap = bootstrap
        self._topics = tuple(topics)
        self._consumer: Consumer | None = None

    @property
    def consumer(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(
                self._bootstrap, metadata_max_age_ms=METADATA_MAX_AGE_MS, allow_auto_create_topics=False
            )
        return self._consumer

    def partitions(self) -> list[TopicPartition]:
        return [name for topic in self._topics for name in self.consumer.partitions_of(topic, TOPIC_WITHIN_S)]

    def earliest(self) -> Offsets:
        return self.consumer.beginning_offsets(self.partitions())

    def latest(self) -> Offsets:
        return self.consumer.end_offsets(self.partitions())

    def resolve(self, given: Given) -> Offsets:
        """The offsets that an option means, for every partition; ValueError where one is missing or unknown."""
        if isinstance(given, str):
            return self.earliest() if given == "earliest" else self.latest()
        named = from_json({t: {str(p): o for p, o in places.items()} for t, places in given.items()})
        there = set(self.partitions())
        if there - named.keys():
            raise ValueError(f"no offset is given for {min(there - named.keys())}; every partition needs one")
        if named.keys() - there:
            raise ValueError(f"an offset is given for {min(named.keys() - there)}, which is not there to be read")
        earliest, latest = NAMED_OFFSETS["earliest"], NAMED_OFFSETS["latest"]
        ends = self.latest() if latest in named.values() else {}
        starts = self.earliest() if earliest in named.values() else {}
        return {
            name: ends[name] if offset == latest else starts[name] if offset == earliest else offset
            for name, offset in named.items()
        }

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
