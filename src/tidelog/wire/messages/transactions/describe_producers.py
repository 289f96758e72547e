"""DescribeProducers (key 61): the producers that a partition knows."""

from tidelog.wire.message import api, array, int16, int32, int64, message, string


@message
class TopicRequest:
    name: str = string()
    partition_indexes: list[int] = array(int32)


@api(61)
class DescribeProducersRequest:
    topics: list[TopicRequest] = array(TopicRequest)


@message
class ProducerState:
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@message
class PartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    active_producers: list[ProducerState] = array(ProducerState)


@message
class TopicResponse:
    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


@api(61)
class DescribeProducersResponse:
    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
