"""Partitions by the id of their topic, as the consumer protocol names them, and their form in messages."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

Place = tuple[bytes, int]
"""A topic's id and a partition's number."""
Epochs = Mapping[Place, int]
"""Partitions, and the member epoch in which each was given to its member."""

M = TypeVar("M")


class Listed(Protocol):
    """The partitions of one topic in a message."""

    topic_id: bytes
    partitions: list[int]


def grouped(places: Iterable[Place]) -> dict[bytes, list[int]]:
    """By topic, in order."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(places):
        topics.setdefault(topic_id, []).append(partition)
    return topics


def listed(places: Iterable[Place], make: Callable[..., M], **fields: Any) -> list[M]:
    """One message a topic."""
    return [
        make(topic_id=topic_id, partitions=partitions, **fields) for topic_id, partitions in grouped(places).items()
    ]


def places(topics: Iterable[Listed]) -> frozenset[Place]:
    return frozenset((topic.topic_id, partition) for topic in topics for partition in topic.partitions)
