"""The requests of the quorum's protocol and their answers, which name one partition: messages ↔ plain values."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tidelog.errors import ErrorCode
from tidelog.partition.truncation import EpochEnd
from tidelog.ports import Buffer
from tidelog.quorum.election import LogEnd
from tidelog.quorum.replica import PARTITION, TOPIC_ID
from tidelog.quorum.snapshots import SnapshotId
from tidelog.quorum.voters import ReplicaKey
from tidelog.wire.messages.cluster import fetch_snapshot
from tidelog.wire.messages.cluster import quorum_elections as elections
from tidelog.wire.messages.cluster.metadata_log import VoterEndpoint
from tidelog.wire.messages.records import fetch

NO_HIGH_WATERMARK = -1
Message = Any
"""A request or a response of the wire."""


class LeaderAndEpoch(NamedTuple):
    """What every answer says: the epoch of who answers, and its leader."""

    leader: int
    epoch: int


def only_partition(request: Message) -> Any:
    """The one partition of a request; None unless that is the metadata log."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic, partition = request.topics[0], request.topics[0].partitions[0]
    match request:
        case fetch.FetchRequest():
            is_log = topic.topic_id == TOPIC_ID and partition.partition == 0
        case fetch_snapshot.FetchSnapshotRequest():
            is_log = topic.name == _NAME and partition.partition == 0
        case _:
            is_log = topic.topic_name == _NAME and partition.partition_index == 0
    return partition if is_log else None


_NAME = PARTITION.topic


def vote_request(
    cluster_id: str, candidate: ReplicaKey, voter: ReplicaKey, epoch: int, end: LogEnd, *, pre_vote: bool
) -> elections.VoteRequest:
    partition = elections.VotePartition(
        replica_epoch=epoch,
        replica_id=candidate.id,
        replica_directory_id=candidate.directory,
        voter_directory_id=voter.directory,
        last_offset_epoch=end.epoch,
        last_offset=end.offset,
        pre_vote=pre_vote,
    )
    topic = elections.VoteTopic(topic_name=_NAME, partitions=[partition])
    return elections.VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic])


def begin_request(
    cluster_id: str, voter: ReplicaKey, standing: LeaderAndEpoch, endpoints: Sequence[VoterEndpoint] = ()
) -> elections.BeginQuorumEpochRequest:
    """`endpoints` are those of the leader."""
    partition = elections.BeginEpochPartition(
        voter_directory_id=voter.directory, leader_id=standing.leader, leader_epoch=standing.epoch
    )
    topic = elections.BeginEpochTopic(topic_name=_NAME, partitions=[partition])
    own = [elections.LeaderEndpoint(name=each.name, host=each.host, port=each.port) for each in endpoints]
    return elections.BeginQuorumEpochRequest(
        cluster_id=cluster_id, voter_id=voter.id, topics=[topic], leader_endpoints=own
    )


def endpoints_of_leader(request: elections.BeginQuorumEpochRequest) -> list[VoterEndpoint]:
    """Where the leader says that it is reached."""
    told = request.leader_endpoints
    return [VoterEndpoint(name=each.name, host=each.host, port=each.port) for each in told]


def end_request(
    cluster_id: str, standing: LeaderAndEpoch, preferred: Sequence[ReplicaKey]
) -> elections.EndQuorumEpochRequest:
    candidates = [
        elections.PreferredCandidate(candidate_id=key.id, candidate_directory_id=key.directory) for key in preferred
    ]
    partition = elections.EndEpochPartition(
        leader_id=standing.leader, leader_epoch=standing.epoch, preferred_candidates=candidates
    )
    topic = elections.EndEpochTopic(topic_name=_NAME, partitions=[partition])
    return elections.EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic])


class Position(NamedTuple):
    """Where a replica fetches, and what it knows of the high watermark."""

    end: LogEnd
    high_watermark: int


def fetch_request(
    cluster_id: str, replica: ReplicaKey, epoch: int, position: Position, *, wait_ms: int, most: int
) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=position.end.offset,
        last_fetched_epoch=position.end.epoch,
        partition_max_bytes=most,
        replica_directory_id=replica.directory,
        high_watermark=position.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=replica.id),
        max_wait_ms=wait_ms,
        max_bytes=most,
        topics=[fetch.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
    )


def vote_response(standing: LeaderAndEpoch, code: ErrorCode, *, granted: bool = False) -> elections.VoteResponse:
    partition = elections.VotePartitionResponse(
        error_code=code, leader_id=standing.leader, leader_epoch=standing.epoch, vote_granted=granted
    )
    return elections.VoteResponse(topics=[elections.VoteTopicResponse(topic_name=_NAME, partitions=[partition])])


def epoch_response(request: Message, standing: LeaderAndEpoch, code: ErrorCode) -> Message:
    """The answer to BeginQuorumEpoch or EndQuorumEpoch."""
    partition = elections.EpochPartitionResponse(
        error_code=code, leader_id=standing.leader, leader_epoch=standing.epoch
    )
    topic = elections.EpochTopicResponse(topic_name=_NAME, partitions=[partition])
    if isinstance(request, elections.BeginQuorumEpochRequest):
        return elections.BeginQuorumEpochResponse(topics=[topic])
    return elections.EndQuorumEpochResponse(topics=[topic])


def fetch_response(
    standing: LeaderAndEpoch,
    code: ErrorCode = ErrorCode.NONE,
    *,
    high_watermark: int = NO_HIGH_WATERMARK,
    **content: Any,
) -> fetch.FetchResponse:
    """`content`: `records` or `diverging_epoch`."""
    leader = fetch.LeaderIdAndEpoch(leader_id=standing.leader, leader_epoch=standing.epoch)
    partition = fetch.PartitionData(
        error_code=code, high_watermark=high_watermark, current_leader=leader, **({"records": b""} | content)
    )
    return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])])


def snapshot_request(
    cluster_id: str, replica: ReplicaKey, epoch: int, which: SnapshotId, position: int, most: int
) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.FetchSnapshotPartition(
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=which.end_offset, epoch=which.epoch),
        position=position,
        replica_directory_id=replica.directory,
    )
    topic = fetch_snapshot.FetchSnapshotTopic(name=_NAME, partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=replica.id, max_bytes=most, topics=[topic]
    )


def snapshot_response(
    standing: LeaderAndEpoch,
    which: SnapshotId,
    code: ErrorCode = ErrorCode.NONE,
    *,
    size: int = 0,
    position: int = 0,
    records: Buffer = b"",
) -> fetch_snapshot.FetchSnapshotResponse:
    partition = fetch_snapshot.FetchSnapshotPartitionResponse(
        error_code=code,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=which.end_offset, epoch=which.epoch),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=standing.leader, leader_epoch=standing.epoch),
        size=size,
        position=position,
        unaligned_records=records,
    )
    topic = fetch_snapshot.FetchSnapshotTopicResponse(name=_NAME, partitions=[partition])
    return fetch_snapshot.FetchSnapshotResponse(topics=[topic])


def snapshot_of(partition: Any) -> SnapshotId:
    """The snapshot that an answer names; its end is negative if it names none."""
    return SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)


def refused(request: Message, code: ErrorCode) -> Message:
    """The answer to a request that is not about this quorum."""
    if isinstance(request, fetch.FetchRequest):
        return fetch.FetchResponse(error_code=code)
    return _RESPONSES[type(request)](error_code=code)


_RESPONSES: dict[type[Any], type[Any]] = {
    elections.VoteRequest: elections.VoteResponse,
    elections.BeginQuorumEpochRequest: elections.BeginQuorumEpochResponse,
    elections.EndQuorumEpochRequest: elections.EndQuorumEpochResponse,
    fetch_snapshot.FetchSnapshotRequest: fetch_snapshot.FetchSnapshotResponse,
}


NODE_ENDPOINTS: dict[type[Any], type[Any]] = {
    elections.VoteResponse: elections.NodeEndpoint,
    elections.BeginQuorumEpochResponse: elections.NodeEndpoint,
    elections.EndQuorumEpochResponse: elections.NodeEndpoint,
    fetch.FetchResponse: fetch.NodeEndpoint,
    fetch_snapshot.FetchSnapshotResponse: fetch_snapshot.NodeEndpoint,
}
"""The answers that say where the leader is reached, and how."""


def answered_partition(response: Message) -> Any:
    """The partition of an answer; None if it was refused as a whole."""
    topics = response.responses if isinstance(response, fetch.FetchResponse) else response.topics
    if response.error_code or len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    return topics[0].partitions[0]


def is_of_leader(response: Message, asker: int) -> bool:
    """Whether the answer to a fetch is one that only a leader gives, and that it is another node than who asked."""
    partition = answered_partition(response)
    return partition is not None and partition.error_code == ErrorCode.NONE and standing_of(partition).leader != asker


def standing_of(partition: Any) -> LeaderAndEpoch:
    """Who leads, according to the partition of an answer."""
    if isinstance(partition, fetch.PartitionData | fetch_snapshot.FetchSnapshotPartitionResponse):
        return LeaderAndEpoch(partition.current_leader.leader_id, partition.current_leader.leader_epoch)
    return LeaderAndEpoch(partition.leader_id, partition.leader_epoch)


def epoch_end_of(diverging: fetch.EpochEndOffset) -> EpochEnd:
    return EpochEnd(diverging.epoch, diverging.end_offset)


def content_of(content: Any) -> Buffer:
    """The records of an answer, as they came."""
    assert content is None or isinstance(content, bytes | bytearray | memoryview), content
    return content or b""
