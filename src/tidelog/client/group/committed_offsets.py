"""Committing and fetching a group's offsets at its coordinator, with retries until the caller's timeout."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidelog.client.cluster import Cluster, by_topic
from tidelog.client.coordinator import CoordinatorFinder, CoordinatorRequest
from tidelog.client.group.member import Member
from tidelog.client.link import Answer
from tidelog.client.options import ConsumerOptions
from tidelog.client.results import CommittedOffset, code_of
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID, Time, TopicPartition
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

Finish = Callable[[Any, ErrorCode, Time], None]
"""Receives the value and the final error code."""

_NEWEST_COMMIT_WITH_NAMES = 9
_NEWEST_FETCH_WITH_NAMES = 9

_EXPELLED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_TRANSIENT = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.REQUEST_TIMED_OUT}
)


@dataclass(slots=True, eq=False, kw_only=True)
class _OffsetRequest(CoordinatorRequest):
    finish: Finish
    handle_response: Callable[["_OffsetRequest", Answer, Time], None]
    wanted: Collection[TopicPartition] | None = None
    """The partitions to fetch offsets for; such a request is built when it is sent."""


class GroupOffsets:
    """The commits and fetches of one group."""

    def __init__(
        self,
        cluster: Cluster,
        finder: CoordinatorFinder,
        membership: Member,
        group: str,
        options: ConsumerOptions,
    ) -> None:
        self._cluster = cluster
        self._finder = finder
        self._membership = membership
        self._group = group
        self._options = options
        self._requests: list[_OffsetRequest] = []

    def __repr__(self) -> str:
        return f"<GroupOffsets {self._group} {len(self._requests)} requests>"

    @property
    def is_idle(self) -> bool:
        return not self._requests

    def commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset], finish: Finish, now: Time, timeout_ms: int
    ) -> None:
        """`finish` receives the committed offsets, or the first error.

        A consumer that subscribes but is not a member now commits nothing: without a generation it would overwrite what
        the others committed. Topics are also identified by ID, because a deleted topic's name may belong to another
        topic when the request arrives.
        """
        if self._membership.topics and self._membership.generation < 0:
            finish(None, ErrorCode.UNKNOWN_MEMBER_ID, now)
            return
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=self._cluster.metadata.last_id(topic),
                partitions=[_partition(number, offsets[TopicPartition(topic, number)]) for number in numbers],
            )
            for topic, numbers in by_topic(offsets)
        ]
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._membership.generation,
            member_id=self._membership.member_id if self._membership.generation >= 0 else "",
            group_instance_id=self._options.group_instance_id if self._membership.generation >= 0 else None,
            topics=topics,
        )
        newest = _newest(topics, _NEWEST_COMMIT_WITH_NAMES)
        self._add(request, finish, partial(self._committed, dict(offsets)), now, timeout_ms, newest)

    def fetch(self, partitions: Collection[TopicPartition], finish: Finish, now: Time, timeout_ms: int) -> None:
        """`finish` receives a `CommittedOffset` by partition; partitions without one are missing. Topics are requested
        by ID if it is known, so that offsets of a deleted topic of the same name do not count."""
        self._add(None, finish, self._fetched, now, timeout_ms, _NEWEST_FETCH_WITH_NAMES, partitions)

    def _fetch_request(self, partitions: Collection[TopicPartition]) -> tuple[OffsetFetchRequest, int]:
        """The request with the current topic IDs, and the newest version that supports it."""
        topics = [
            OffsetFetchRequestTopics(
                name=topic, topic_id=self._cluster.metadata.topic_id(topic), partition_indexes=numbers
            )
            for topic, numbers in by_topic(partitions)
        ]
        group = OffsetFetchRequestGroup(group_id=self._group, topics=topics)
        request = OffsetFetchRequest(group_id=self._group, groups=[group], require_stable=True)
        return request, _newest(topics, _NEWEST_FETCH_WITH_NAMES)

    def advance(self, now: Time) -> None:
        for pending in list(self._requests):
            if pending.is_in_flight:
                continue
            if now.mono >= pending.deadline or self._finder.refused:
                self._end(pending, None, self._finder.refused or pending.last_error, now)
            elif now.mono >= pending.retry_at:
                if pending.wanted is not None:
                    if self._awaits_first_metadata(pending.wanted):
                        pending.retry_at = 0
                        self._finder.node(now)  # starts its lookup
                        continue
                    pending.request, pending.newest = self._fetch_request(pending.wanted)
                pending.send(self._cluster, self._finder, partial(self._answered, pending), now)

    def _awaits_first_metadata(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether the first metadata of a topic has not arrived yet."""
        metadata = self._cluster.metadata
        return any(p.topic in metadata.interest and p.topic not in metadata.topics for p in partitions)

    @property
    def deadline(self) -> int | None:
        if not self._requests:
            return None
        waiting = [pending for pending in self._requests if not pending.is_in_flight]
        moments = [
            min(pending.deadline, pending.retry_at) if pending.retry_at else pending.deadline for pending in waiting
        ]
        if self._finder.deadline is not None and not all(pending.retry_at for pending in waiting):
            moments.append(self._finder.deadline)  # nobody looks the coordinator up before it is due
        return min(moments, default=None)

    def _add(
        self,
        request: Any,
        finish: Finish,
        handle_response: Callable[[_OffsetRequest, Answer, Time], None],
        now: Time,
        timeout_ms: int,
        newest: int,
        wanted: Collection[TopicPartition] | None = None,
    ) -> None:
        pending = _OffsetRequest(
            request=request,
            deadline=now.mono + timeout_ms,
            newest=newest,
            backoff=self._cluster.backoff(),
            finish=finish,
            handle_response=handle_response,
            wanted=wanted,
        )
        self._requests.append(pending)

    def _answered(self, pending: _OffsetRequest, answer: Answer, now: Time) -> None:
        pending.is_in_flight = False
        if answer.fault is ErrorCode.UNSUPPORTED_VERSION:
            self._end(pending, None, answer.fault, now)
        elif answer.fault:
            self._retry(pending, answer.fault, answer.fault, now)
        else:
            pending.handle_response(pending, answer, now)

    def _retry(self, pending: _OffsetRequest, code: ErrorCode, fault: ErrorCode, now: Time) -> None:
        self._finder.handle_error(code, fault, now)
        pending.retry_later(code, now)

    def _end(self, pending: _OffsetRequest, value: Any, code: ErrorCode, now: Time) -> None:
        self._requests.remove(pending)
        pending.finish(value, code, now)

    def _committed(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset],
        pending: _OffsetRequest,
        answer: Answer,
        now: Time,
    ) -> None:
        codes = [code_of(partition.error_code) for topic in answer.response.topics for partition in topic.partitions]
        code = next((code for code in codes if code), ErrorCode.NONE)
        if code is ErrorCode.NONE:
            self._end(pending, offsets, code, now)
        elif self._finder.handle_error(code, ErrorCode.NONE, now) or code in _TRANSIENT:
            self._retry(pending, code, ErrorCode.NONE, now)
        else:
            if code in _EXPELLED and self._membership.generation == pending.request.generation_id_or_member_epoch:
                self._membership.expelled(now)
            elif code is ErrorCode.REBALANCE_IN_PROGRESS:
                self._membership.rebalancing()
            self._end(pending, None, code, now)

    def _fetched(self, pending: _OffsetRequest, answer: Answer, now: Time) -> None:
        group = answer.response.groups[0]
        names = {topic.topic_id: topic.name for topic in pending.request.groups[0].topics}
        partitions = [
            (topic.name or names.get(topic.topic_id, ""), partition)
            for topic in group.topics
            for partition in topic.partitions
        ]
        codes = [code_of(group.error_code), *(code_of(partition.error_code) for _, partition in partitions)]
        if not all(name for name, _ in partitions):
            codes.append(ErrorCode.UNKNOWN_TOPIC_ID)  # not requested
        code = next((code for code in codes if code), ErrorCode.NONE)
        if code is ErrorCode.NONE:
            found = {
                TopicPartition(topic, p.partition_index): CommittedOffset(
                    p.committed_offset, p.metadata or "", p.committed_leader_epoch
                )
                for topic, p in partitions
                if p.committed_offset >= 0
            }
            self._end(pending, found, code, now)
        elif code is ErrorCode.UNKNOWN_TOPIC_ID:
            self._cluster.request_metadata_update(now)
            pending.retry_later(code, now)
        elif self._finder.handle_error(code, ErrorCode.NONE, now) or code in _TRANSIENT:
            self._retry(pending, code, ErrorCode.NONE, now)
        else:
            self._end(pending, None, code, now)


def _newest(topics: Sequence[OffsetCommitRequestTopic | OffsetFetchRequestTopics], with_names: int) -> int:
    """The newest version that can identify these topics: versions after `with_names` need topic IDs."""
    return with_names if any(topic.topic_id == NO_ID for topic in topics) else 32767


def _partition(number: int, offset: CommittedOffset) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )
