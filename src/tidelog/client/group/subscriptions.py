"""The bytes that members of a group send each other through its coordinator: what they want and what they get."""

from collections.abc import Iterable
from itertools import groupby
from struct import Struct, error

from tidelog.client.group.assignors import Assignor, Subscription
from tidelog.errors import ProtocolViolation
from tidelog.model import TopicPartition
from tidelog.wire import codec
from tidelog.wire.message import array, data, int32, message, string
from tidelog.wire.messages.groups.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitionResponse,
)
from tidelog.wire.messages.groups.consumer_protocol import TopicPartition as TopicPartitions

PROTOCOL_TYPE = "consumer"

_VERSION = Struct(">h")
_NEWEST = 3


@message
class PreviousTopic:
    topic: str = string()
    partitions: list[int] = array(int32)


@data("0-1")
class StickyUserData:
    """What a member of an eager sticky group had before it gave it up, as Kafka's sticky assignor writes it."""

    previous_assignment: list[PreviousTopic] = array(PreviousTopic)
    generation: int = int32("1+", default=-1)


def encode_subscription(assignor: Assignor, mine: Subscription, had: Iterable[TopicPartition]) -> bytes:
    """`had` is what the member last held, which an assignor that remembers is told though it was given up."""
    user_data = None
    if assignor.remembers:
        previous = [PreviousTopic(topic=topic, partitions=numbers) for topic, numbers in by_topic(had)]
        user_data = codec.encode(StickyUserData(previous_assignment=previous, generation=mine.generation), 1)
    subscription = ConsumerProtocolSubscription(
        topics=sorted(mine.topics),
        user_data=user_data,
        owned_partitions=[TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in by_topic(mine.owned)],
        generation_id=mine.generation,
    )
    return _VERSION.pack(_NEWEST) + codec.encode(subscription, _NEWEST)


def decode_subscription(assignor: Assignor, raw: bytes, instance_id: str | None = None) -> Subscription:
    """What another member wrote; ProtocolViolation where it is no subscription."""
    found = codec.decode(ConsumerProtocolSubscription, _version(raw), raw[_VERSION.size :])
    owned = {TopicPartition(topic.topic, number) for topic in found.owned_partitions for number in topic.partitions}
    generation = found.generation_id
    if assignor.remembers and found.user_data:
        owned, generation = _previous(found.user_data)
    return Subscription(frozenset(found.topics), frozenset(owned), generation, instance_id)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    topics = [TopicPartitionResponse(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions)]
    return _VERSION.pack(_NEWEST) + codec.encode(ConsumerProtocolAssignment(assigned_partitions=topics), _NEWEST)


def decode_assignment(raw: bytes) -> frozenset[TopicPartition]:
    """The partitions given; none for an empty assignment. ProtocolViolation for anything else."""
    if not raw:
        return frozenset()
    found = codec.decode(ConsumerProtocolAssignment, _version(raw), raw[_VERSION.size :])
    return frozenset(
        TopicPartition(topic.topic, number) for topic in found.assigned_partitions for number in topic.partitions
    )


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """The partitions' numbers by topic, both in order."""
    grouped = groupby(sorted(partitions), key=lambda partition: partition.topic)
    return [(topic, [partition.partition for partition in group]) for topic, group in grouped]


def _version(raw: bytes) -> int:
    """A version that is newer than ours is read as ours: what was added stands behind."""
    try:
        (version,) = _VERSION.unpack_from(raw)
    except error:
        raise ProtocolViolation("a member's metadata has no version") from None
    return min(int(version), _NEWEST)


def _previous(user_data: bytes) -> tuple[set[TopicPartition], int]:
    for version in (1, 0):
        try:
            found = codec.decode(StickyUserData, version, user_data)
        except ProtocolViolation:
            continue
        owned = {
            TopicPartition(topic.topic, number) for topic in found.previous_assignment for number in topic.partitions
        }
        return owned, found.generation
    return set(), -1
