"""The embedded consumer protocol: subscriptions and assignments in the format of classic members."""

import struct
from collections.abc import Iterable
from typing import Any, TypeVar

from tidelog.coordinator.group.consumer.topics import Cluster, TopicIdPartition, partitions_by_topic
from tidelog.errors import ProtocolViolation
from tidelog.wire import codec
from tidelog.wire.messages.groups.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitionResponse,
)

NEWEST = 3
_VERSION = struct.Struct(">h")

T = TypeVar("T")


def protocol_version(data: bytes) -> int:
    """A newer version than the known ones is parsed, and answered, as the newest known one. Raises ProtocolViolation if
    there is none."""
    try:
        found: int = _VERSION.unpack_from(data)[0]
    except struct.error as error:
        raise ProtocolViolation("a consumer protocol message without a version") from error
    if found < 0:
        raise ProtocolViolation(f"consumer protocol version {found}")
    return min(found, NEWEST)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription | None:
    """None if it is malformed."""
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment | None:
    """None if it is malformed; a member that was assigned nothing yet has an empty one."""
    return _read(ConsumerProtocolAssignment, data) if data else ConsumerProtocolAssignment()


def _read(cls: type[T], data: bytes) -> T | None:
    try:
        return codec.decode(cls, protocol_version(data), data[_VERSION.size :])
    except ProtocolViolation:
        return None


def write_assignment(cluster: Cluster, partitions: Iterable[TopicIdPartition], version: int) -> bytes:
    """Deleted topics are left out."""
    assigned = [
        TopicPartitionResponse(topic=cluster.topic_names[topic_id], partitions=numbers)
        for topic_id, numbers in partitions_by_topic(partitions).items()
        if topic_id in cluster.topic_names
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=None)
    return _VERSION.pack(version) + codec.encode(message, version)


def known_partitions(cluster: Cluster, topics: Iterable[Any]) -> frozenset[TopicIdPartition]:
    """Partitions by topic name to partitions by topic ID, without deleted topics."""
    return frozenset(
        (cluster.topics[topic.topic].id, partition)
        for topic in topics
        if topic.topic in cluster.topics
        for partition in topic.partitions
    )
