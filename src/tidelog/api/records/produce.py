"""Produce (0): append record batches, and answer when they are as safe as `acks` requires (rule 4).

acks=0 is not answered, acks=1 when the leader has the records (durable, if flush.messages or flush.ms is set), acks=all
when the high watermark passes them: the request waits in purgatory for `Committed`.
"""

from typing import Any, NamedTuple

from tidelog.api.context import Computation, Context
from tidelog.api.records import inspecting, transactional
from tidelog.api.records.leaders import MOVED, endpoints, find, present_leader
from tidelog.api.transactions.verification import Guard
from tidelog.effects import Close, Committed, Condition, Deferred, Synced
from tidelog.errors import ApiError, DiskFailed, ErrorCode
from tidelog.log.inspection import LargeBatch, inspect
from tidelog.log.rules import AppendRules
from tidelog.model import INTERNAL_TOPICS, TopicPartition
from tidelog.partition.leader import Leader
from tidelog.partition.partition import ACKS_ALL, Partition
from tidelog.ports import Buffer
from tidelog.wire.compression import Compression
from tidelog.wire.messages.records.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.records import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL,
    BatchHeader,
    header,
)

ACKS_NONE = 0
KNOWN_ACKS = frozenset({ACKS_ALL, ACKS_NONE, 1})
BYTES = (memoryview, bytes, bytearray)
NO_CURRENT_LEADER = LeaderIdAndEpoch()
"""The default of answers. It is shared: replaced, never modified."""
TOPIC_IDS_SINCE = 13
CURRENT_LEADER_SINCE = 10
ZSTD_SINCE = 7
LAST_ATTRIBUTES_BYTE = ATTRIBUTES_POSITION + 1
WITHOUT_LOG_START = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
"""Every other error from the log includes the log start offset, so that a producer can tell why its id is unknown."""


class PendingAppend(NamedTuple):
    """A partition's answer that waits until the records below `end` are safe."""

    partition: Partition
    end: int
    answer: PartitionProduceResponse


class PendingInspection(NamedTuple):
    """A partition's answer that waits until its batch is inspected by these rules."""

    topic: str
    records: Buffer
    batch: BatchHeader
    rules: AppendRules
    answer: PartitionProduceResponse
    computation: Computation
    guard: Guard | None


class Uninspected(NamedTuple):
    """A request of which some batches are still being inspected: `request` is without its batches."""

    request: ProduceRequest
    response: ProduceResponse
    pending: list[PendingAppend]
    inspections: list[PendingInspection]
    refused: ApiError | None


def handle(request: ProduceRequest, context: Context) -> ProduceResponse | Deferred | None:
    if request.transactional_id is not None:
        answer: ProduceResponse | Deferred | None = transactional.verify(request, context, _append_all)
        return answer
    return _append_all(context, request, {})


def _append_all(
    context: Context, request: ProduceRequest, unverified: dict[TopicPartition, ApiError]
) -> ProduceResponse | Deferred | None:
    """Append what may be appended; `unverified` are partitions that the transaction's coordinator refused."""
    response = ProduceResponse(responses=[])
    pending: list[PendingAppend] = []
    inspections: list[PendingInspection] = []
    refused = None
    for topic in request.topic_data:
        name = topic.name if context.version < TOPIC_IDS_SINCE else context.broker.topic_name(topic.topic_id)
        answers = []
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index, base_offset=-1, current_leader=NO_CURRENT_LEADER)
            try:
                if name is None:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
                if unverified and (name, data.index) in unverified:
                    raise unverified[TopicPartition(name, data.index)]
                wait = _append(context, request, name, data.records, answer)
                if wait is not None:
                    pending.append(wait)
            except LargeBatch:
                inspections.append(_begin_inspection(context, name or "", data.records, answer))
            except ApiError as error:
                _refuse(context, name or "", answer, error)
                refused = error
            answers.append(answer)
        if answers:
            response.responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
            )
    if inspections:
        rest = ProduceRequest(
            transactional_id=request.transactional_id, acks=request.acks, timeout_ms=request.timeout_ms
        )
        return _wait_for_inspections(context, Uninspected(rest, response, pending, inspections, refused))
    return _appended(context, request, response, pending, refused)


def _appended(
    context: Context,
    request: ProduceRequest,
    response: ProduceResponse,
    pending: list[PendingAppend],
    refused: ApiError | None,
) -> ProduceResponse | Deferred | None:
    """What can be appended is appended: answer, or wait."""
    if request.acks == ACKS_NONE:
        if refused is not None:
            context.effects.append(Close(context.connection, f"acks=0 was refused with {refused.code.name}"))
        return None
    if refused is not None:
        _add_leaders(context, response)
    return _answer_or_wait(context, response, pending, context.now.mono + request.timeout_ms, request.acks)


def _wait_for_inspections(context: Context, waiting: Uninspected) -> Deferred:
    computations = [each.computation for each in waiting.inspections]
    size = sum(len(each.records) for each in waiting.inspections)
    wait: Deferred = inspecting.wait_for(context, computations, size, _inspected, waiting)
    return wait


def _inspected(context: Context, waiting: Uninspected) -> ProduceResponse | Deferred | None:
    """Append what passed. If the topic's options have changed meanwhile, it is inspected again."""
    request, response, pending, inspections, refused = waiting
    again: list[PendingInspection] = []
    for topic, records, batch, rules, answer, computation, guard in inspections:
        result = computation.result
        try:
            transactional.end_wait(guard, batch)
            if isinstance(result, ApiError):
                raise result
            wait = _append(context, request, topic, records if result is None else result, answer, rules)
            if wait is not None:
                pending.append(wait)
        except LargeBatch:
            again.append(_begin_inspection(context, topic, records, answer))
        except ApiError as error:
            _refuse(context, topic, answer, error)
            refused = error
    if again:
        return _wait_for_inspections(context, Uninspected(request, response, pending, again, refused))
    return _appended(context, request, response, pending, refused)


def _append(
    context: Context,
    request: ProduceRequest,
    topic: str,
    records: Any,
    answer: PartitionProduceResponse,
    inspected: AppendRules | None = None,
) -> PendingAppend | None:
    """Append one partition's batch and fill in its answer; returns what it must wait for. Raises LargeBatch if the
    batch must be inspected first, unless it was."""
    acks = request.acks
    if acks not in KNOWN_ACKS:
        _check_known(context, topic, answer.index)
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    if topic in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic}")
    broker = context.broker
    partition = find(broker, topic, answer.index)
    if not isinstance(records, BYTES) or len(records) == 0:
        raise ApiError(ErrorCode.INVALID_RECORD, "A produce request holds exactly one batch for each partition.")
    if len(records) > LAST_ATTRIBUTES_BYTE and records[LAST_ATTRIBUTES_BYTE]:
        _check_attributes(request, context.version, records)
    try:
        appended = partition.append(
            records,
            acks,
            context.now,
            transaction_version=transactional.transaction_version(context.version),
            inspected=inspected,
        )
    except ApiError as error:
        if error.code not in WITHOUT_LOG_START:
            answer.log_start_offset = partition.log.log_start_offset
        raise
    except DiskFailed as failure:
        broker.disk_failed(failure)
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from failure
    answer.base_offset = appended.first_offset
    answer.log_append_time_ms = appended.log_append_time
    answer.log_start_offset = partition.log.log_start_offset
    partition.advance(context.now, broker.eligible)
    end = appended.last_offset + 1
    return None if acks == ACKS_NONE or safe_end(partition, acks) >= end else PendingAppend(partition, end, answer)


def _check_known(context: Context, topic: str, partition: int) -> None:
    """Raises UNKNOWN_TOPIC_OR_PARTITION for a partition that the cluster does not have."""
    known = context.broker.image.topics.get(topic)
    if known is None or partition not in known.partitions:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _begin_inspection(
    context: Context, topic: str, records: Any, answer: PartitionProduceResponse
) -> PendingInspection:
    """With a copy of the batch: the view dies with this turn."""
    copied = bytes(records)
    batch, partition = header(copied), find(context.broker, topic, answer.index)
    rules = partition.log.rules
    computation = inspecting.begin(context, inspect, copied, batch, rules)
    guard = transactional.begin_wait(context, batch, partition)
    return PendingInspection(topic, copied, batch, rules, answer, computation, guard)


def safe_end(partition: Partition, acks: int) -> int:
    """The offset below which records are as safe as `acks` requires: committed, or in the leader's own log."""
    committed = partition.high_watermark
    return committed if acks == ACKS_ALL else max(committed, partition.durable_end)


def _check_attributes(request: ProduceRequest, version: int, records: Buffer) -> None:
    """Attributes that the request's version or its transactional ID must allow. The log refuses old formats."""
    attributes = records[LAST_ATTRIBUTES_BYTE] if records[MAGIC_POSITION] == MAGIC else 0
    if attributes & COMPRESSION_MASK == Compression.ZSTD and version < ZSTD_SINCE:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd is for Produce v{ZSTD_SINCE} and newer")
    if attributes & TRANSACTIONAL and request.transactional_id is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _answer_or_wait(
    context: Context, response: ProduceResponse, pending: list[PendingAppend], deadline: int, acks: int
) -> ProduceResponse | Deferred:
    """The response, once every partition's records are safe, refused or timed out; until then a new wait."""
    waiting: list[PendingAppend] = []
    conditions: list[Condition] = []
    for wait in pending:
        partition, topic = wait.partition, wait.partition.name.topic
        role = partition.role
        if not isinstance(role, Leader):
            code = ErrorCode.KAFKA_STORAGE_ERROR if partition.failed else ErrorCode.NOT_LEADER_OR_FOLLOWER
            _refuse(context, topic, wait.answer, ApiError(code))
        elif safe_end(partition, acks) >= wait.end:
            # Committed, but the ISR has shrunk since: the client must know that fewer replicas have the records.
            if acks == ACKS_ALL and len(role.maximal_isr) < partition.min_in_sync:
                _refuse(context, topic, wait.answer, ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        elif context.now.mono >= deadline:
            _refuse(context, topic, wait.answer, ApiError(ErrorCode.REQUEST_TIMED_OUT))
        else:
            waiting.append(wait)
            conditions.append(
                Committed(partition.name, partition.epoch, wait.end)
                if acks == ACKS_ALL
                else Synced(partition.name, wait.end)
            )
    if not waiting:
        return response
    return Deferred(conditions, deadline, _answer_or_wait, (response, waiting, deadline, acks))


def _refuse(context: Context, topic: str, answer: PartitionProduceResponse, error: ApiError) -> None:
    answer.error_code = error.code
    answer.error_message = error.message
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=error.message) for index in error.records
    ]
    answer.base_offset = -1
    answer.log_append_time_ms = -1
    if error.code in MOVED and context.version >= CURRENT_LEADER_SINCE:
        leader, epoch = present_leader(context.broker, topic, answer.index)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)


def _add_leaders(context: Context, response: ProduceResponse) -> None:
    leaders = {
        answer.current_leader.leader_id
        for topic in response.responses
        for answer in topic.partition_responses
        if answer.current_leader.leader_id >= 0
    }
    response.node_endpoints = [
        NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
        for node, host, port, rack in endpoints(context, leaders)
    ]
