"""Records of `__consumer_offsets`: committed offsets, classic groups, and consumer groups (KIP-848)."""

from tidelog.wire.message import array, binary, data, int8, int32, int64, message, string, struct, uuid


@data("0", record=1)
class OffsetCommitKey:
    group: str = string()
    topic: str = string()
    partition: int = int32()


@data("0-4", flexible="4+")
class OffsetCommitValue:
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1)
    topic_id: bytes = uuid("4+", tag=0)


@data("0", record=2)
class GroupMetadataKey:
    group: str = string()


@message
class MemberMetadata:
    member_id: str = string()
    group_instance_id: str | None = string("3+", default=None, nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32()
    subscription: bytes = binary()
    assignment: bytes = binary()


@data("0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)


@data("0", record=3)
class ConsumerGroupMetadataKey:
    group_id: str = string()


@data("0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


@data("0", record=5)
class ConsumerGroupMemberMetadataKey:
    group_id: str = string()
    member_id: str = string()


@message
class ClassicProtocol:
    name: str = string()
    metadata: bytes = binary()


@message
class ClassicMemberMetadata:
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


@data("0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(ClassicMemberMetadata, nullable="0+", tag=0)


@data("0", record=6)
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = string()


@data("0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0)


@data("0", record=7)
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = string()
    member_id: str = string()


@message
class TopicPartition:
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@data("0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = array(TopicPartition)


@data("0", record=8)
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = string()
    member_id: str = string()


@message
class TopicPartitions:
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0)


@data("0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)


@data("0", record=16)
class ConsumerGroupRegularExpressionKey:
    group_id: str = string()
    regular_expression: str = string()


@data("0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()


@data("0", record=4)
class ConsumerGroupPartitionMetadataKey:
    group_id: str = string()


@message
class PartitionMetadata:
    partition: int = int32()
    racks: list[str] = array(string)


@message
class TopicMetadata:
    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


@data("0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    topics: list[TopicMetadata] = array(TopicMetadata)
