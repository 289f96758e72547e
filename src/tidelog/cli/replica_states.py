"""The state of every replica, determined with requests that any Kafka broker answers.

Metadata returns leader, epoch and ISR, DescribeTopicPartitions the eligible leader replicas where the ISR is not
complete. ListOffsets with replica ID -2, that of a debugging consumer, returns the broker's own log end offset, and a
Fetch at that offset, which finds no records, its high watermark. If a broker does not answer, the values of its
replicas are None.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.cli.admin_requests import LATEST, describe_topics, list_offsets_on, metadata
from tidelog.errors import ApiError
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic

DEBUGGING_REPLICA_ID = -2
NEWEST_FETCH_BY_NAME = 12
"""The newest Fetch with topic names; 11 is the oldest version that followers answer."""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """The state of one replica; None where its broker did not answer. `lag` is the distance to the leader, in
    offsets."""

    partition: TopicPartition
    leader: int
    epoch: int
    in_sync: tuple[int, ...]
    replica: int
    log_end_offset: int | None = None
    high_watermark: int | None = None
    lag: int | None = None
    is_eligible: bool = False
    """Whether it may lead once no replica in sync can (KIP-966)."""

    @property
    def state(self) -> str:
        if self.replica == self.leader:
            return "leader"
        if self.log_end_offset is None:
            return "silent"
        if self.is_eligible:
            return "eligible"
        return "in sync" if self.replica in self.in_sync else "behind"


@dataclass(frozen=True, slots=True)
class _Position:
    log_end_offset: int
    high_watermark: int | None = None


def replica_states(admin: Admin, pattern: str | None = None, *, timeout_ms: int = 3_000) -> list[ReplicaState]:
    """The replicas of the topics whose names match, or of all topics but internal ones if there is no pattern; ordered
    by partition, then as assigned."""
    response = metadata(admin)
    wanted = [
        topic
        for topic in response.topics
        if (not topic.is_internal if pattern is None else re.fullmatch(pattern, topic.name or ""))
    ]
    held: dict[int, list[TopicPartition]] = {broker.node_id: [] for broker in response.brokers}
    for topic, partition in _partitions(wanted):
        for replica in partition.replica_nodes:
            held.setdefault(replica, []).append(TopicPartition(topic, partition.partition_index))
    live = {broker.node_id for broker in response.brokers}
    positions = {
        broker: _positions_on(admin, broker, held[broker], timeout_ms) for broker in sorted(live) if held[broker]
    }
    eligible = _eligible(admin, wanted)
    return [
        state
        for topic, partition in sorted(_partitions(wanted), key=lambda pair: (pair[0], pair[1].partition_index))
        for state in _states(topic, partition, positions, eligible.get((topic, partition.partition_index), ()))
    ]


def _eligible(admin: Admin, topics: Iterable[Any]) -> dict[tuple[str, int], Collection[int]]:
    """The eligible leader replicas of each partition that has any: only those with too few replicas in sync do."""
    short = {name for name, each in _partitions(topics) if len(each.isr_nodes) < len(each.replica_nodes)}
    return {
        (topic.name, partition.partition_index): elr
        for topic in describe_topics(admin, sorted(short))
        for partition in topic.partitions
        if (elr := getattr(partition, "eligible_leader_replicas", None))
    }


def _partitions(topics: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for topic in topics:
        for partition in topic.partitions:
            yield topic.name or "", partition


def _states(
    topic: str, partition: Any, positions: Mapping[int, Mapping[TopicPartition, _Position]], eligible: Collection[int]
) -> Iterator[ReplicaState]:
    name = TopicPartition(topic, partition.partition_index)
    leaders = positions.get(partition.leader_id, {}).get(name)
    for replica in partition.replica_nodes:
        own = positions.get(replica, {}).get(name)
        lag = max(0, leaders.log_end_offset - own.log_end_offset) if leaders and own else None
        yield ReplicaState(
            name,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.isr_nodes),
            replica,
            own.log_end_offset if own else None,
            own.high_watermark if own else None,
            lag,
            replica in eligible,
        )


def _positions_on(
    admin: Admin, broker: int, partitions: list[TopicPartition], timeout_ms: int
) -> dict[TopicPartition, _Position]:
    """The positions of a broker's replicas; empty if it does not answer in time."""
    try:
        ends = list_offsets_on(
            admin,
            broker,
            dict.fromkeys(partitions, LATEST),
            replica=DEBUGGING_REPLICA_ID,
            timeout_ms=timeout_ms,
            retries=False,
        )
        known = {partition: end.offset for partition, end in ends.items() if not end.error and end.offset >= 0}
        watermarks = _watermarks(admin, broker, known, timeout_ms)
    except ApiError:
        return {}
    return {partition: _Position(end, watermarks.get(partition)) for partition, end in known.items()}


def _watermarks(
    admin: Admin, broker: int, ends: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int]:
    request = watermarks_request(ends)
    return watermarks(admin.ask(request, broker, newest=NEWEST_FETCH_BY_NAME, timeout_ms=timeout_ms, retries=False))


def watermarks_request(ends: Mapping[TopicPartition, int]) -> FetchRequest:
    """A Fetch at the log end offset of replicas, which finds no records."""
    topics: dict[str, list[FetchPartition]] = {}
    for (topic, partition), end in ends.items():
        partition_request = FetchPartition(partition=partition, fetch_offset=end, partition_max_bytes=1)
        topics.setdefault(topic, []).append(partition_request)
    return FetchRequest(
        max_bytes=1,
        topics=[FetchTopic(topic=name, partitions=partition_request) for name, partition_request in topics.items()],
    )


def watermarks(response: Any) -> dict[TopicPartition, int]:
    """The high watermarks in a Fetch response."""
    return {
        TopicPartition(topic.topic, each.partition_index): each.high_watermark
        for topic in response.responses
        for each in topic.partitions
        if not each.error_code and each.high_watermark >= 0
    }
