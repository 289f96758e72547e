"""ConsumerGroupHeartbeat (key 68): membership and assignment of a consumer group (KIP-848)."""

from tidelog.wire.message import api, array, int16, int32, message, string, struct, uuid


@message
class TopicPartitions:
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@api(68)
class ConsumerGroupHeartbeatRequest:
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(default=None, nullable="0+")
    rack_id: str | None = string(default=None, nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, default=None, nullable="0+")
    subscribed_topic_regex: str | None = string("1+", default=None, nullable="0+")
    server_assignor: str | None = string(default=None, nullable="0+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, default=None, nullable="0+")


@message
class TopicPartitionsResponse:
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@message
class Assignment:
    topic_partitions: list[TopicPartitionsResponse] = array(TopicPartitionsResponse)


@api(68)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    member_id: str | None = string(default=None, nullable="0+")
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, default=None, nullable="0+")
