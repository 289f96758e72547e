"""StopReplica (key 5): the controller tells a broker to stop or delete replicas."""

from tidelog.wire.message import api, array, boolean, int16, int32, int64, message, string


@message
class StopReplicaPartitionState:
    partition_index: int = int32()
    leader_epoch: int = int32(default=-1)
    delete_partition: bool = boolean()


@message
class StopReplicaTopicState:
    topic_name: str = string()
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState)


@api(5)
class StopReplicaRequest:
    controller_id: int = int32()
    is_kraft_controller: bool = boolean()
    controller_epoch: int = int32()
    broker_epoch: int = int64(default=-1)
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState)


@message
class StopReplicaPartitionError:
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


@api(5)
class StopReplicaResponse:
    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)
