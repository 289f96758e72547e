"""UpdateMetadata (key 6): the controller sends every broker the cluster's metadata. `push_number` is not Kafka's: it
ascends within the controller's epoch."""

from tidelog.wire.message import api, array, boolean, int8, int16, int32, int64, message, string, uuid


@message
class UpdateMetadataPartitionState:
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    zk_version: int = int32()
    replicas: list[int] = array(int32)
    offline_replicas: list[int] = array(int32)


@message
class UpdateMetadataTopicState:
    topic_name: str = string()
    topic_id: bytes = uuid()
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState)


@message
class UpdateMetadataEndpoint:
    port: int = int32()
    host: str = string()
    listener: str = string()
    security_protocol: int = int16()


@message
class UpdateMetadataBroker:
    id: int = int32()
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint)
    rack: str | None = string(nullable="0+")


@api(6)
class UpdateMetadataRequest:
    controller_id: int = int32()
    is_kraft_controller: bool = boolean()
    type: int = int8(tag=0)
    controller_epoch: int = int32()
    broker_epoch: int = int64(default=-1)
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState)
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)
    push_number: int = int64(default=-1, tag=1000)


@api(6)
class UpdateMetadataResponse:
    error_code: int = int16()
