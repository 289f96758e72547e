"""Offsets by time: the earliest, the latest, or the first at or after a timestamp, from each partition's leader."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from tidelog.client.backoff import Backoff
from tidelog.client.cluster import Cluster, by_topic
from tidelog.client.link import Answer
from tidelog.client.results import code_of
from tidelog.errors import RETRIABLE, ErrorCode
from tidelog.model import NO_EPOCH, Time, TopicPartition
from tidelog.wire.messages.records.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


class FoundOffset(NamedTuple):
    """`offset` is -1 if no record has that timestamp or a later one."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = NO_EPOCH


Finish = Callable[[dict[TopicPartition, FoundOffset], ErrorCode, Time], None]
"""Receives the offsets that were found, and NONE or the error of those that were not."""


@dataclass(slots=True, eq=False)
class _OffsetSearch:
    wanted: dict[TopicPartition, int]
    finish: Finish
    deadline: int
    backoff: Backoff
    found: dict[TopicPartition, FoundOffset] = field(default_factory=dict)
    retry_at: int = 0
    in_flight: int = 0
    metadata_seen: int = -1
    last_error: ErrorCode = ErrorCode.REQUEST_TIMED_OUT


class OffsetLookups:
    """The lookups in progress; `isolation_level` is 1 to stop at open transactions."""

    def __init__(self, cluster: Cluster, isolation_level: int) -> None:
        self._cluster = cluster
        self._isolation_level = isolation_level
        self._searches: list[_OffsetSearch] = []

    def __repr__(self) -> str:
        return f"<OffsetLookups {len(self._searches)} under way>"

    def look_up(self, wanted: Mapping[TopicPartition, int], finish: Finish, now: Time, timeout_ms: int) -> None:
        """Find the offsets for these timestamps, EARLIEST or LATEST."""
        self._cluster.add_topics({partition.topic for partition in wanted}, now)
        search = _OffsetSearch(dict(wanted), finish, now.mono + timeout_ms, self._cluster.backoff())
        self._searches.append(search)

    def advance(self, now: Time) -> None:
        for search in list(self._searches):
            if search.in_flight:
                continue
            if not search.wanted:
                self._end(search, ErrorCode.NONE, now)
            elif now.mono >= search.deadline:
                self._end(search, search.last_error, now)
            elif now.mono >= search.retry_at or search.metadata_seen != self._cluster.metadata.updates:
                self._send_to_leaders(search, now)

    @property
    def deadline(self) -> int | None:
        if not self._searches:
            return None
        waiting = (search for search in self._searches if not search.in_flight)
        return min((min(search.retry_at, search.deadline) for search in waiting), default=None)

    def _end(self, search: _OffsetSearch, code: ErrorCode, now: Time) -> None:
        self._searches.remove(search)
        search.finish(search.found, code, now)

    def _send_to_leaders(self, search: _OffsetSearch, now: Time) -> None:
        by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        search.retry_at = now.mono + search.backoff.next_ms()
        search.metadata_seen = self._cluster.metadata.updates
        for partition in search.wanted:
            leader = self._cluster.metadata.leader(partition)
            if leader is None:
                self._cluster.request_metadata_update(now)
            else:
                by_leader[leader].append(partition)
        for leader, partitions in by_leader.items():
            search.in_flight += 1
            topics = [
                ListOffsetsTopic(
                    name=topic,
                    partitions=[self._partition_request(search, TopicPartition(topic, number)) for number in numbers],
                )
                for topic, numbers in by_topic(partitions)
            ]
            timeout = min(self._cluster.options.request_timeout_ms, search.deadline - now.mono)
            request = ListOffsetsRequest(
                replica_id=-1, isolation_level=self._isolation_level, topics=topics, timeout_ms=timeout
            )
            self._cluster.send_request(leader, request, partial(self._answered, search), now, timeout_ms=timeout)

    def _partition_request(self, search: _OffsetSearch, partition: TopicPartition) -> ListOffsetsPartition:
        return ListOffsetsPartition(
            partition_index=partition.partition,
            current_leader_epoch=self._cluster.metadata.leader_epoch(partition),
            timestamp=search.wanted[partition],
        )

    def _answered(self, search: _OffsetSearch, answer: Answer, now: Time) -> None:
        search.in_flight -= 1
        if answer.fault:
            search.last_error = answer.fault
            self._cluster.request_metadata_update(now)
            if answer.fault is ErrorCode.UNSUPPORTED_VERSION:
                search.deadline = now.mono
            return
        for topic in answer.response.topics:
            for partition_answer in topic.partitions:
                partition = TopicPartition(topic.name, partition_answer.partition_index)
                code = code_of(partition_answer.error_code)
                if not code:
                    search.found[partition] = FoundOffset(
                        partition_answer.offset, partition_answer.timestamp, partition_answer.leader_epoch
                    )
                    search.wanted.pop(partition, None)
                    continue
                search.last_error = code
                self._cluster.request_metadata_update(now)
                if code not in RETRIABLE:
                    search.deadline = now.mono
