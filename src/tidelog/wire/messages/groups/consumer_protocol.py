"""What members of a classic consumer group exchange through the coordinator."""

from tidelog.wire.message import array, binary, data, int32, message, string


@message
class TopicPartition:
    topic: str = string("1+")
    partitions: list[int] = array(int32, "1+")


@data("0-3")
class ConsumerProtocolSubscription:
    topics: list[str] = array(string)
    user_data: bytes | None = binary(default=None, nullable="0+")
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", default=None, nullable="0+")


@message
class TopicPartitionResponse:
    topic: str = string()
    partitions: list[int] = array(int32)


@data("0-3")
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartitionResponse] = array(TopicPartitionResponse)
    user_data: bytes | None = binary(default=None, nullable="0+")
