"""DescribeQuorum (55): who leads, votes and observes, and how far each of them is. Only the leader knows."""

from collections.abc import Iterable

from tidelog.errors import ErrorCode
from tidelog.model import Time
from tidelog.quorum import requests
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.replica import PARTITION
from tidelog.quorum.states import LONG_AGO, Leader, Progress
from tidelog.quorum.voters import ReplicaKey
from tidelog.wire.messages.cluster.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionDataResponse,
    ReplicaState,
    TopicDataResponse,
)

OBSERVED_FOR_MS = 300_000
"""An observer that has not fetched for so long is left out."""
_UNKNOWN = -1

_SENTENCES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This controller is not the leader of the metadata quorum.",
}


def describe(quorum: Quorum, request: DescribeQuorumRequest, now: Time) -> DescribeQuorumResponse:
    state = quorum.state
    if requests.only_partition(request) is None:
        return _refused(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not isinstance(state, Leader):
        return _refused(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    own = Progress(quorum.replica.synced_end, now.mono, now.mono)
    progress = {**state.replicas, quorum.me: own}
    of_voters = {key.id: key for key in progress if key in quorum.voters}
    recent = now.mono - OBSERVED_FOR_MS
    observers = [key for key, each in progress.items() if key not in of_voters.values() and each.fetched_at >= recent]
    partition = PartitionDataResponse(
        partition_index=PARTITION.partition,
        error_message=None,
        leader_id=quorum.me.id,
        leader_epoch=quorum.epoch,
        high_watermark=quorum.replica.high_watermark if quorum.is_in_office else _UNKNOWN,
        current_voters=_states([of_voters.get(key.id, key) for key in quorum.voters], progress, now),
        observers=_states(sorted(observers), progress, now),
    )
    nodes = [
        Node(
            node_id=key.id,
            listeners=[Listener(name=e.name, host=e.host, port=e.port) for e in quorum.endpoints_of(key.id)],
        )
        for key in quorum.voters
    ]
    topics = [TopicDataResponse(topic_name=PARTITION.topic, partitions=[partition])]
    return DescribeQuorumResponse(error_message=None, topics=topics, nodes=nodes)


def _states(keys: Iterable[ReplicaKey], progress: dict[ReplicaKey, Progress], now: Time) -> list[ReplicaState]:
    found = []
    for key in keys:
        each = progress.get(key)
        found.append(
            ReplicaState(
                replica_id=key.id,
                replica_directory_id=key.directory,
                log_end_offset=_UNKNOWN if each is None else each.end,
                last_fetch_timestamp=_UNKNOWN if each is None else _wall_ms(each.fetched_at, now),
                last_caught_up_timestamp=_UNKNOWN if each is None else _wall_ms(each.caught_up_at, now),
            )
        )
    return found


def _wall_ms(at: int, now: Time) -> int:
    """The wall clock at a moment of the monotonic one."""
    return _UNKNOWN if at == LONG_AGO else now.wall - (now.mono - at)


def _refused(request: DescribeQuorumRequest, code: ErrorCode) -> DescribeQuorumResponse:
    topics = [
        TopicDataResponse(
            topic_name=topic.topic_name,
            partitions=[
                PartitionDataResponse(
                    partition_index=each.partition_index, error_code=code, error_message=_SENTENCES[code]
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return DescribeQuorumResponse(error_message=None, topics=topics)
