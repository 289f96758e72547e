"""What a group needs to know about the cluster's topics, and partitions by topic ID."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from tidelog.model import NO_ID, TopicPartition

TopicIdPartition = tuple[bytes, int]
"""A topic ID and a partition number."""
AssignmentEpochs = Mapping[TopicIdPartition, int]
"""Partitions, and the member epoch in which each was assigned."""

M = TypeVar("M")


class TopicPartitionsMessage(Protocol):
    """The partitions of one topic in a message."""

    topic_id: bytes
    partitions: list[int]


def partitions_by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    """Sorted partition numbers by topic ID."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return topics


def to_messages(partitions: Iterable[TopicIdPartition], make: Callable[..., M], **fields: Any) -> list[M]:
    """One message per topic."""
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
    """The present topics by name, and names by topic ID."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    @property
    def topic_names(self) -> Mapping[bytes, str]: ...

    def has_epoch_of(self, office: TopicPartition, epoch: int) -> bool:
        """Whether the metadata of the broker that leads this partition since this epoch has every topic that existed
        before."""


class NoTopics:
    """A cluster without topics."""

    topics: Mapping[str, Topic] = {}
    topic_names: Mapping[bytes, str] = {}

    def has_epoch_of(self, office: TopicPartition, epoch: int) -> bool:
        del office, epoch
        return True


def id_of(cluster: Cluster, name: str) -> bytes:
    """The ID of the topic with this name; NO_ID if there is none."""
    topic = cluster.topics.get(name)
    return NO_ID if topic is None else topic.id


def ids(cluster: Cluster, names: Iterable[str]) -> frozenset[bytes]:
    """The IDs of the topics that exist."""
    return frozenset(topic.id for name in names if (topic := cluster.topics.get(name)) is not None)


def partition_counts(cluster: Cluster, names: Iterable[str]) -> dict[bytes, int]:
    """The number of partitions of each topic that exists."""
    return {topic.id: len(topic.partitions) for name in names if (topic := cluster.topics.get(name)) is not None}


def fingerprint(cluster: Cluster, names: Iterable[str]) -> int:
    """A signed 64-bit number that changes when a topic is created, deleted, created again or gets partitions; 0 if no
    topic exists. Racks do not matter, because no assignor uses them."""
    digest = hashlib.blake2b(digest_size=8)
    found = [(name, topic) for name in sorted(names) if (topic := cluster.topics.get(name)) is not None]
    for name, topic in found:
        digest.update(f"{name}\0{topic.id.hex()}\0{len(topic.partitions)}\0".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0
