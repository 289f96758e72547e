"""FetchSnapshot (59): a slice of a snapshot of the metadata log (KIP-630)."""

from tidelog.wire.message import (
    Records,
    api,
    array,
    int16,
    int32,
    int64,
    message,
    records,
    string,
    struct,
    uint16,
    uuid,
)


@message
class SnapshotId:
    end_offset: int = int64()
    epoch: int = int32()


@message
class FetchSnapshotPartition:
    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct(SnapshotId)
    position: int = int64()
    replica_directory_id: bytes = uuid("1+", tag=0)


@message
class FetchSnapshotTopic:
    name: str = string()
    partitions: list[FetchSnapshotPartition] = array(FetchSnapshotPartition)


@api(59)
class FetchSnapshotRequest:
    cluster_id: str | None = string(nullable="0+", default=None, tag=0)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=2147483647)
    topics: list[FetchSnapshotTopic] = array(FetchSnapshotTopic)


@message
class LeaderIdAndEpoch:
    leader_id: int = int32()
    leader_epoch: int = int32()


@message
class FetchSnapshotPartitionResponse:
    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = struct(SnapshotId)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, tag=0)
    size: int = int64()
    position: int = int64()
    unaligned_records: Records = records(default=b"")


@message
class FetchSnapshotTopicResponse:
    name: str = string()
    partitions: list[FetchSnapshotPartitionResponse] = array(FetchSnapshotPartitionResponse)


@message
class NodeEndpoint:
    node_id: int = int32("1+")
    host: str = string("1+")
    port: int = uint16("1+")


@api(59)
class FetchSnapshotResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[FetchSnapshotTopicResponse] = array(FetchSnapshotTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)
