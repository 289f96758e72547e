"""ElectLeaders (key 43): preferred and unclean leader election on request."""

from tidelog.wire.message import api, array, int8, int16, int32, message, string


@message
class TopicPartitions:
    topic: str = string()
    partitions: list[int] = array(int32)


@api(43)
class ElectLeadersRequest:
    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=60000)


@message
class PartitionResult:
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message
class ReplicaElectionResult:
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@api(43)
class ElectLeadersResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
