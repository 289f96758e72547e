"""ListOffsets (2): the first, the last, and offsets by timestamp (KIP-79, 207, 320, 734)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tidelog.api.context import Computation, Context
from tidelog.api.records import inspecting
from tidelog.api.records.leaders import find
from tidelog.effects import Deferred
from tidelog.errors import ApiError, ErrorCode
from tidelog.log.reading import Unread, look_up
from tidelog.model import NO_EPOCH, TopicPartition
from tidelog.partition.partition import Partition
from tidelog.wire.messages.records.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from tidelog.wire.records import BatchHeader

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
NEVER = 32767
KNOWN_SINCE = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The versions in which a negative timestamp got its meaning."""
CONSUMER = -1
DEBUGGER = -2
READ_COMMITTED = 1
OFFSET_NOT_AVAILABLE_SINCE = 5


class Found(NamedTuple):
    timestamp: int
    offset: int
    epoch: int


NOTHING = Found(-1, -1, NO_EPOCH)


MOST_AT_ONCE = 16
"""Batches of one request that wait to be looked into."""


class Answers:
    """The answers of one request so far, and what was found off the event loop for those that are missing."""

    def __init__(self, request: ListOffsetsRequest) -> None:
        self.request = request
        self.done: dict[TopicPartition, ListOffsetsPartitionResponse] = {}
        self.known: dict[TopicPartition, dict[BatchHeader, Any]] = {}
        self.unread: list[tuple[TopicPartition, BatchHeader, Computation]] = []

    def __repr__(self) -> str:
        return f"<Answers {len(self.done)} done, {len(self.unread)} wait>"


def handle(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse | Deferred:
    return _answered_or_wait(context, Answers(request))


def _answered_or_wait(context: Context, answers: Answers) -> ListOffsetsResponse | Deferred:
    response = _response(context, answers)
    if not answers.unread:
        return response
    computations = [computation for _, _, computation in answers.unread]
    size = sum(batch.length for _, batch, _ in answers.unread)
    waiting: Deferred = inspecting.wait_for(context, computations, size, _found, answers)
    return waiting


def _found(context: Context, answers: Answers) -> ListOffsetsResponse | Deferred:
    for name, batch, computation in answers.unread:
        answers.known.setdefault(name, {})[batch] = computation.result
    answers.unread.clear()
    return _answered_or_wait(context, answers)


def _response(context: Context, answers: Answers) -> ListOffsetsResponse:
    request = answers.request
    times_requested = Counter(
        (topic.name, requested.partition_index) for topic in request.topics for requested in topic.partitions
    )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _refusal(requested, ErrorCode.INVALID_REQUEST)
                    if times_requested[topic.name, requested.partition_index] > 1
                    else _answer_once(context, answers, topic.name, requested)
                    for requested in partitions
                ],
            )
            for topic, partitions in _once(request)
        ]
    )


def _once(request: ListOffsetsRequest) -> Iterator[tuple[ListOffsetsTopic, list[ListOffsetsPartition]]]:
    """Each topic with each of its partitions once: duplicates are refused once."""
    seen: set[tuple[str, int]] = set()
    for topic in request.topics:
        fresh = {
            requested.partition_index: requested
            for requested in topic.partitions
            if (topic.name, requested.partition_index) not in seen
        }
        seen.update((topic.name, index) for index in fresh)
        if fresh or not topic.partitions:
            yield topic, list(fresh.values())


def _refusal(requested: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=requested.partition_index, error_code=code)


def _answer_once(
    context: Context, answers: Answers, topic: str, requested: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    """The answer; a refusal stands for one that must wait."""
    name = TopicPartition(topic, requested.partition_index)
    answer = answers.done.get(name)
    if answer is None and len(answers.unread) < MOST_AT_ONCE:
        try:
            answer = answers.done[name] = _answer(
                context, answers.request, topic, requested, answers.known.get(name, {})
            )
        except Unread as unread:
            computation = inspecting.begin(context, look_up, *unread.arguments)
            answers.unread.append((name, unread.batch, computation))
    return answer or _refusal(requested, ErrorCode.NONE)


def _answer(
    context: Context,
    request: ListOffsetsRequest,
    topic: str,
    requested: ListOffsetsPartition,
    known: Mapping[BatchHeader, Any],
) -> ListOffsetsPartitionResponse:
    try:
        partition = find(context.broker, topic, requested.partition_index)
        partition.check_epoch(requested.current_leader_epoch)
        if request.replica_id != DEBUGGER:
            partition.leading()
        if requested.timestamp < 0 and context.version < KNOWN_SINCE.get(requested.timestamp, NEVER):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        for result in known.values():
            if isinstance(result, ApiError):
                raise result
        found = _find(partition, requested.timestamp, _limit(partition, request), known)
    except ApiError as error:
        code = error.code
        if code == ErrorCode.OFFSET_NOT_AVAILABLE and context.version < OFFSET_NOT_AVAILABLE_SINCE:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return _refusal(requested, code)
    return ListOffsetsPartitionResponse(
        partition_index=requested.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.epoch,
    )


def _limit(partition: Partition, request: ListOffsetsRequest) -> int:
    """What this asker may know of: consumers up to LSO or HW, replicas and debuggers all of the log."""
    if request.replica_id != CONSUMER:
        return partition.log.log_end_offset
    return partition.last_stable_offset if request.isolation_level == READ_COMMITTED else partition.high_watermark


def _find(partition: Partition, timestamp: int, limit: int, known: Mapping[BatchHeader, Any]) -> Found:
    log, end = partition.log, partition.log.log_end_offset
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return Found(-1, log.log_start_offset, log.epochs.epoch_at(log.log_start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if timestamp == LATEST:
        _check_settled(partition, limit)
        return Found(-1, limit, partition.epoch)
    found = (
        log.max_timestamp_offset(known)
        if timestamp == MAX_TIMESTAMP
        else log.offset_for_timestamp(timestamp, end, known)
    )
    if found is None:
        return NOTHING
    if found[1] >= limit:
        _check_settled(partition, limit)
        return NOTHING
    return Found(*found)


def _check_settled(partition: Partition, limit: int) -> None:
    """Rule 9: a new leader's high watermark may be below its predecessor's. A client that may see the whole log (a
    debugger, also of a follower) gets its end.
    """
    if limit < partition.log.log_end_offset and partition.high_watermark < partition.leading().epoch_start:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
