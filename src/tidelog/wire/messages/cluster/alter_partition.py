"""AlterPartition (key 56): a leader asks the controller to change its in-sync set.

`elr`, the eligible leader replicas with the new in-sync set, is not Kafka's.
"""

from tidelog.wire.message import api, array, int8, int16, int32, int64, message, uuid


@message
class BrokerState:
    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


@message
class PartitionData:
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, "0-2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8()
    partition_epoch: int = int32()


@message
class TopicData:
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@api(56)
class AlterPartitionRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[TopicData] = array(TopicData)


@message
class PartitionDataResponse:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8()
    partition_epoch: int = int32()
    elr: list[int] = array(int32, tag=10_000)


@message
class TopicDataResponse:
    topic_id: bytes = uuid()
    partitions: list[PartitionDataResponse] = array(PartitionDataResponse)


@api(56)
class AlterPartitionResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[TopicDataResponse] = array(TopicDataResponse)
