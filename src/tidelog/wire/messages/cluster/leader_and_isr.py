"""LeaderAndIsr (key 4): the controller sends a broker its partitions and their roles. Two fields are not Kafka's:
`push_number` ascends within the controller's epoch, and `isr_epochs` has the broker epoch with which each member of
`isr` was found in sync, or is empty."""

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
