"""What the controller pushes to brokers.

- LeaderAndIsr (key 4): the controller sends a broker its partitions and their roles. Some fields are not Kafka's:
  `push_number` ascends within the controller's epoch, and `isr_epochs` has the broker epoch with which each member
  of `isr` was found in sync, or is empty; so do the eligible leader replicas and those that were (KIP-966).
- StopReplica (key 5): the controller has a broker stop or delete replicas. `push_number` and `topic_id` are not
  Kafka's: the one ascends within the controller's epoch, the other says which topic of that name is meant.
- UpdateMetadata (key 6): the controller sends every broker the cluster's metadata. `push_number`, the eligible leader
  replicas, the last leader and the finalized features are not Kafka's. Nor are `part`, the position of this request
  among those that carry a large change, and `has_more`, false in the last of them: then all take effect together.
"""

from tidelog.wire.message import api, array, boolean, int8, int16, int32, int64, message, string, uuid


@message
class LeaderAndIsrPartitionState:
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    partition_epoch: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)
    is_new: bool = boolean()
    leader_recovery_state: int = int8()
    isr_epochs: list[int] = array(int64, tag=1000)
    elr: list[int] = array(int32, tag=1001)
    elr_epochs: list[int] = array(int64, tag=1002)
    last_known: list[int] = array(int32, tag=1003)
    last_known_epochs: list[int] = array(int64, tag=1004)


@message
class LeaderAndIsrTopicState:
    topic_name: str = string()
    topic_id: bytes = uuid()
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState)


@message
class LeaderAndIsrLiveLeader:
    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


@api(4)
class LeaderAndIsrRequest:
    controller_id: int = int32()
    is_kraft_controller: bool = boolean()
    controller_epoch: int = int32()
    broker_epoch: int = int64(default=-1)
    type: int = int8()
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState)
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)
    push_number: int = int64(default=-1, tag=1000)


@message
class LeaderAndIsrPartitionError:
    partition_index: int = int32()
    error_code: int = int16()


@message
class LeaderAndIsrTopicError:
    topic_id: bytes = uuid()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError)


@api(4)
class LeaderAndIsrResponse:
    error_code: int = int16()
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError)


@message
class StopReplicaPartitionState:
    partition_index: int = int32()
    leader_epoch: int = int32(default=-1)
    delete_partition: bool = boolean()


@message
class StopReplicaTopicState:
    topic_name: str = string()
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState)
    topic_id: bytes = uuid(tag=1000)


@api(5)
class StopReplicaRequest:
    controller_id: int = int32()
    is_kraft_controller: bool = boolean()
    controller_epoch: int = int32()
    broker_epoch: int = int64(default=-1)
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState)
    push_number: int = int64(default=-1, tag=1000)


@message
class StopReplicaPartitionError:
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


@api(5)
class StopReplicaResponse:
    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)


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
    elr: list[int] = array(int32, tag=1000)
    last_leader: int = int32(default=-1, tag=1001)


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


@message
class UpdateMetadataFeature:
    name: str = string()
    level: int = int16()


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
    features: list[UpdateMetadataFeature] = array(UpdateMetadataFeature, tag=1001)
    features_epoch: int = int64(default=0, tag=1002)
    part: int = int32(default=0, tag=1003)
    has_more: bool = boolean(default=False, tag=1004)


@api(6)
class UpdateMetadataResponse:
    error_code: int = int16()
