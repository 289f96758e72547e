"""The requests of the classic protocol, and the bytes in them that members send each other through the coordinator."""

from collections.abc import Collection, Iterable, Mapping
from struct import Struct, error

from tidelog.client.cluster import by_topic
from tidelog.client.group.assignors import ASSIGNORS, Assignor, Subscription
from tidelog.client.options import ConsumerOptions
from tidelog.errors import ProtocolViolation
from tidelog.model import TopicPartition
from tidelog.wire import codec
from tidelog.wire.message import array, data, int32, message, string
from tidelog.wire.messages.groups.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
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
    """What a member of an eager sticky group owned before it gave it up, in the format of Kafka's sticky assignor."""

    previous_assignment: list[PreviousTopic] = array(PreviousTopic)
    generation: int = int32("1+", default=-1)


def encode_subscription(assignor: Assignor, mine: Subscription, had: Iterable[TopicPartition]) -> bytes:
    """`had` is what the member last owned; assignors with `keeps_user_data` need it although it was given up."""
    user_data = None
    if assignor.keeps_user_data:
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
    """Another member's subscription; ProtocolViolation if it is malformed."""
    found = codec.decode(ConsumerProtocolSubscription, _version(raw), raw[_VERSION.size :])
    owned = {TopicPartition(topic.topic, number) for topic in found.owned_partitions for number in topic.partitions}
    generation = found.generation_id
    if assignor.keeps_user_data and found.user_data:
        owned, generation = _previous(found.user_data)
    return Subscription(frozenset(found.topics), frozenset(owned), generation, instance_id)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    topics = [TopicPartitionResponse(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions)]
    return _VERSION.pack(_NEWEST) + codec.encode(ConsumerProtocolAssignment(assigned_partitions=topics), _NEWEST)


def decode_assignment(raw: bytes) -> frozenset[TopicPartition]:
    """The assigned partitions; none for an empty assignment. ProtocolViolation if it is malformed."""
    if not raw:
        return frozenset()
    found = codec.decode(ConsumerProtocolAssignment, _version(raw), raw[_VERSION.size :])
    return frozenset(
        TopicPartition(topic.topic, number) for topic in found.assigned_partitions for number in topic.partitions
    )


def _version(raw: bytes) -> int:
    """The version to decode with: newer versions only append fields, so they are read as our newest."""
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


class GroupRequests:
    """The requests of one member of one group."""

    def __init__(self, group: str, options: ConsumerOptions) -> None:
        self._group = group
        self._options = options

    def join(self, member_id: str, mine: Subscription, had: Collection[TopicPartition]) -> JoinGroupRequest:
        """`had` is what the member owned before it gave it up."""
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=encode_subscription(ASSIGNORS[name], mine, had))
            for name in self._options.partition_assignment_strategy
        ]
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self._options.session_timeout_ms,
            rebalance_timeout_ms=self._options.max_poll_interval_ms,
            member_id=member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
        )

    def sync(
        self, member_id: str, generation: int, protocol: str, assignments: Mapping[str, Collection[TopicPartition]]
    ) -> SyncGroupRequest:
        """The leader sends all members' partitions, the others none."""
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
                for member, partitions in assignments.items()
            ],
        )

    def heartbeat(self, member_id: str, generation: int) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self._group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self._options.group_instance_id,
        )

    def leave(self, member_id: str, reason: str) -> LeaveGroupRequest:
        member = MemberIdentity(member_id=member_id, reason=reason)
        return LeaveGroupRequest(group_id=self._group, member_id=member_id, members=[member])
