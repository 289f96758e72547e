"""DescribeQuorum (key 55): the voters of the metadata quorum."""

from tidelog.wire.message import api, array, int16, int32, int64, message, string, uint16, uuid


@message
class PartitionData:
    partition_index: int = int32()


@message
class TopicData:
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@api(55)
class DescribeQuorumRequest:
    topics: list[TopicData] = array(TopicData)


@message
class ReplicaState:
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


@message
class PartitionDataResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="0+")
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


@message
class TopicDataResponse:
    topic_name: str = string()
    partitions: list[PartitionDataResponse] = array(PartitionDataResponse)


@message
class Listener:
    name: str = string("2+")
    host: str = string("2+")
    port: int = uint16("2+")


@message
class Node:
    node_id: int = int32("2+")
    listeners: list[Listener] = array(Listener, "2+")


@api(55)
class DescribeQuorumResponse:
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="0+")
    topics: list[TopicDataResponse] = array(TopicDataResponse)
    nodes: list[Node] = array(Node, "2+")
