"""Vote (52), BeginQuorumEpoch (53) and EndQuorumEpoch (54): who leads the metadata quorum (KIP-595, KIP-853,
KIP-996)."""

from tidelog.wire.message import api, array, boolean, int16, int32, int64, message, string, uint16, uuid


@message
class NodeEndpoint:
    node_id: int = int32("1+")
    host: str = string("1+")
    port: int = uint16("1+")


@message
class LeaderEndpoint:
    name: str = string("1+")
    host: str = string("1+")
    port: int = uint16("1+")


@message
class VotePartition:
    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("1+")
    voter_directory_id: bytes = uuid("1+")
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean("2+")


@message
class VoteTopic:
    topic_name: str = string()
    partitions: list[VotePartition] = array(VotePartition)


@api(52)
class VoteRequest:
    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1)
    topics: list[VoteTopic] = array(VoteTopic)


@message
class VotePartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


@message
class VoteTopicResponse:
    topic_name: str = string()
    partitions: list[VotePartitionResponse] = array(VotePartitionResponse)


@api(52)
class VoteResponse:
    error_code: int = int16()
    topics: list[VoteTopicResponse] = array(VoteTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)


@message
class EpochPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


@message
class EpochTopicResponse:
    topic_name: str = string()
    partitions: list[EpochPartitionResponse] = array(EpochPartitionResponse)


@message
class BeginEpochPartition:
    partition_index: int = int32()
    voter_directory_id: bytes = uuid("1+")
    leader_id: int = int32()
    leader_epoch: int = int32()


@message
class BeginEpochTopic:
    topic_name: str = string()
    partitions: list[BeginEpochPartition] = array(BeginEpochPartition)


@api(53)
class BeginQuorumEpochRequest:
    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1)
    topics: list[BeginEpochTopic] = array(BeginEpochTopic)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+")


@api(53)
class BeginQuorumEpochResponse:
    error_code: int = int16()
    topics: list[EpochTopicResponse] = array(EpochTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)


@message
class PreferredCandidate:
    candidate_id: int = int32("1+")
    candidate_directory_id: bytes = uuid("1+")


@message
class EndEpochPartition:
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array(int32, "0")
    preferred_candidates: list[PreferredCandidate] = array(PreferredCandidate, "1+")


@message
class EndEpochTopic:
    topic_name: str = string()
    partitions: list[EndEpochPartition] = array(EndEpochPartition)


@api(54)
class EndQuorumEpochRequest:
    cluster_id: str | None = string(nullable="0+", default=None)
    topics: list[EndEpochTopic] = array(EndEpochTopic)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+")


@api(54)
class EndQuorumEpochResponse:
    error_code: int = int16()
    topics: list[EpochTopicResponse] = array(EpochTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0)
