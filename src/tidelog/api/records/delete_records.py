"""DeleteRecords (21): move the start of logs forward, and answer when every live replica has (KIP-107)."""

from typing import NamedTuple

from tidelog.api.context import Context
from tidelog.api.records.leaders import find
from tidelog.effects import Deferred, Readable
from tidelog.errors import ApiError, DiskFailed, ErrorCode
from tidelog.partition.partition import Partition
from tidelog.wire.messages.records.offsets import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NO_WATERMARK = -1


class Pending(NamedTuple):
    """A partition whose replicas have not all reached `start`."""

    partition: Partition
    start: int
    answer: DeleteRecordsPartitionResult


def handle(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse | Deferred:
    response = DeleteRecordsResponse(topics=[])
    pending = []
    for topic in request.topics:
        answers = []
        for requested in {requested.partition_index: requested for requested in topic.partitions}.values():
            answer = DeleteRecordsPartitionResult(partition_index=requested.partition_index, low_watermark=NO_WATERMARK)
            answers.append(answer)
            try:
                partition = find(context.broker, topic.name, requested.partition_index)
                start = partition.delete_records_before(requested.offset)
                pending.append(Pending(partition, start, answer))
            except ApiError as error:
                answer.error_code = error.code
            except DiskFailed as failure:
                context.broker.disk_failed(failure)
                answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=answers))
    return _answer_or_wait(context, response, pending, context.now.mono + request.timeout_ms)


def _answer_or_wait(
    context: Context, response: DeleteRecordsResponse, pending: list[Pending], deadline: int
) -> DeleteRecordsResponse | Deferred:
    waiting = []
    for wait in pending:
        try:
            low = wait.partition.low_watermark(context.broker.eligible)
        except ApiError as error:
            wait.answer.error_code = error.code
            continue
        if low >= wait.start:
            wait.answer.low_watermark = low
        elif context.now.mono >= deadline:
            wait.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        else:
            waiting.append(wait)
    if not waiting:
        return response
    conditions = [Readable(wait.partition.name) for wait in waiting]
    return Deferred(conditions, deadline, _answer_or_wait, (response, waiting, deadline))
