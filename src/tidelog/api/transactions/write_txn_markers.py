"""WriteTxnMarkers (27): the end of transactions, written by the leaders of the partitions that took part.

Answered when the markers are committed. The group coordinator is notified of those in its own topic.
"""

from typing import NamedTuple

from tidelog.api.context import Context
from tidelog.effects import Committed, Condition, Deferred
from tidelog.errors import ApiError, DiskFailed, ErrorCode
from tidelog.model import GROUP_TOPIC
from tidelog.partition.leader import Leader
from tidelog.partition.partition import ACKS_ALL, Partition
from tidelog.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.wire.records import Marker, build_marker


class Written(NamedTuple):
    """A marker that is not committed yet."""

    partition: Partition
    epoch: int
    end: int
    answer: WritableTxnMarkerPartitionResult


def handle(request: WriteTxnMarkersRequest, context: Context) -> WriteTxnMarkersResponse | Deferred:
    response = WriteTxnMarkersResponse()
    written: list[Written] = []
    for marker in request.markers:
        result = WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(result)
        for topic in marker.topics:
            answers = WritableTxnMarkerTopicResult(name=topic.name)
            result.topics.append(answers)
            for index in topic.partition_indexes:
                answer = WritableTxnMarkerPartitionResult(partition_index=index)
                answers.partitions.append(answer)
                try:
                    written.append(_write(context, marker, topic.name, answer))
                except ApiError as error:
                    answer.error_code = error.code
    return _answer_or_wait(context, response, written, context.now.mono + context.broker.config.request_timeout_ms)


def _write(
    context: Context, marker: WritableTxnMarker, topic: str, answer: WritableTxnMarkerPartitionResult
) -> Written:
    """ApiError where the partition is not here, or its log knows better."""
    broker, index = context.broker, answer.partition_index
    partition = broker.replicas.get(topic, index)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    batch = build_marker(
        Marker(marker.transaction_result, marker.coordinator_epoch),
        timestamp=context.now.wall,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )
    try:
        appended = partition.append(
            batch, ACKS_ALL, context.now, from_client=False, transaction_version=marker.transaction_version
        )
    except DiskFailed as failure:
        broker.disk_failed(failure)
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from failure
    if topic == GROUP_TOPIC:
        offset, producer, committed = appended.first_offset, marker.producer_id, marker.transaction_result
        context.effects.extend(
            broker.groups.transaction_ended(index, offset, producer, context.now, committed=committed)
        )
    partition.advance(context.now, broker.eligible)
    return Written(partition, partition.epoch, appended.last_offset + 1, answer)


def _answer_or_wait(
    context: Context, response: WriteTxnMarkersResponse, written: list[Written], deadline: int
) -> WriteTxnMarkersResponse | Deferred:
    """A leadership that ended meanwhile decides nothing: the marker may be gone, and is written again."""
    waiting: list[Written] = []
    for one in written:
        if not isinstance(one.partition.role, Leader) or one.partition.epoch != one.epoch:
            one.answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif one.partition.high_watermark < one.end:
            if context.now.mono < deadline:
                waiting.append(one)
            else:
                one.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
    if not waiting:
        return response
    conditions: list[Condition] = [Committed(one.partition.name, one.epoch, one.end) for one in waiting]
    return Deferred(conditions, deadline, _answer_or_wait, (response, waiting, deadline))
