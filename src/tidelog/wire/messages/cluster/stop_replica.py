"""StopReplica (key 5): the controller has a broker stop or delete replicas. `push_number` and `topic_id` are not
Kafka's: the one ascends within the controller's epoch, the other says which topic of that name is meant."""

from tidelog.wire.message import api, array, boolean, int16, int32, int64, message, string, uuid


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
