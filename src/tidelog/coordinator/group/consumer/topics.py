"""What a group needs to know of the cluster's topics, and partitions by the id of their topic."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from tidelog.model import NO_ID, TopicPartition

TopicIdPartition = tuple[bytes, int]
"""A topic's id and a partition's number."""
AssignmentEpochs = Mapping[TopicIdPartition, int]
"""Partitions, and the member epoch in which each was given to its member."""

M = TypeVar("M")


class TopicPartitionsMessage(Protocol):
    """The partitions of one topic in a message."""

    topic_id: bytes
    partitions: list[int]


def partitions_by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    """By topic, in order."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return topics


def to_messages(partitions: Iterable[TopicIdPartition], make: Callable[..., M], **fields: Any) -> list[M]:
    """One message a topic."""
    return [
        make(topic_id=topic_id, partitions=numbers, **fields)
        for topic_id, numbers in partitions_by_topic(partitions).items()
    ]


def partitions_from(topics: Iterable[TopicPartitionsMessage]) -> frozenset[TopicIdPartition]:
    return frozenset((topic.topic_id, partition) for topic in topics for partition in topic.partitions)


class Topic(Protocol):
    @property
    def id(self) -> bytes: ...

    @property
    def partitions(self) -> Mapping[int, Any]: ...


class Cluster(Protocol):
    """Topics by name, and names by id, as they are now."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    @property
    def topic_names(self) -> Mapping[bytes, str]: ...

    def has_epoch_of(self, office: TopicPartition, epoch: int) -> bool:
        """Whether who leads this partition since this epoch has heard of every topic that was there before."""


class NoTopics:
    """A cluster that has none."""

    topics: Mapping[str, Topic] = {}
    topic_names: Mapping[bytes, str] = {}

    def has_epoch_of(self, office: TopicPartition, epoch: int) -> bool:
        del office, epoch
        return True


def id_of(cluster: Cluster, name: str) -> bytes:
    """The id of the topic that has this name now; NO_ID where none has."""
    topic = cluster.topics.get(name)
    return NO_ID if topic is None else topic.id


def ids(cluster: Cluster, names: Iterable[str]) -> frozenset[bytes]:
    """The ids of those that exist."""
    return frozenset(topic.id for name in names if (topic := cluster.topics.get(name)) is not None)


def partition_counts(cluster: Cluster, names: Iterable[str]) -> dict[bytes, int]:
    """How many partitions each of those that exist has."""
    return {topic.id: len(topic.partitions) for name in names if (topic := cluster.topics.get(name)) is not None}


def fingerprint(cluster: Cluster, names: Iterable[str]) -> int:
    """A signed 64-bit number that changes when a topic appears, goes, is made anew or gets partitions; 0 for none.
    Racks do not matter, since no assignor looks at them."""
    digest = hashlib.blake2b(digest_size=8)
    found = [(name, topic) for name in sorted(names) if (topic := cluster.topics.get(name)) is not None]
    for name, topic in found:
        digest.update(f"{name}\0{topic.id.hex()}\0{len(topic.partitions)}\0".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0
