"""TxnOffsetCommit (28): positions that count once the producer's transaction is committed (KIP-98, 447, 890).

The partition of the group's positions is verified, or added, as a produce's partitions are.
"""

from collections.abc import Callable
from functools import partial

from tidelog.api.context import Context, Pending
from tidelog.api.groups.group_requests import submit
from tidelog.api.transactions import verification
from tidelog.api.transactions.transaction_requests import offsets_partition
from tidelog.api.transactions.verification import PendingVerification
from tidelog.controller.image import ClusterImage
from tidelog.coordinator.group.offset_commit import transactional_commit_error
from tidelog.effects import Deferred
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.message import replace
from tidelog.wire.messages.transactions.transaction_requests import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

LOADING_SINCE = 2
"""Older producers do not know COORDINATOR_LOAD_IN_PROGRESS here."""
WAIT_MS = 5_000
ABORTABLE_SINCE = 4
VERSION_2_SINCE = 5


Answer = TxnOffsetCommitResponse | Deferred | Pending
Finish = Callable[[TxnOffsetCommitResponse], TxnOffsetCommitResponse]


def handle(request: TxnOffsetCommitRequest, context: Context) -> Answer:
    known: list[TxnOffsetCommitRequestTopic] = []
    refused: dict[str, TxnOffsetCommitResponseTopic] = {}
    for topic in request.topics:
        indexes = _indexes(context.broker.image, topic.name)
        found = [partition for partition in topic.partitions if partition.partition_index in indexes]
        missing = [p.partition_index for p in topic.partitions if p.partition_index not in indexes]
        if found:
            known.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=found))
        if missing or not topic.partitions:
            refused[topic.name] = _unknown(topic.name, missing)
    if not known:
        return TxnOffsetCommitResponse(topics=list(refused.values()))
    known_only = replace(request, topics=known)
    return _verify(context, known_only, partial(_finish, context.version, refused), context.now.mono + WAIT_MS)


def _indexes(image: ClusterImage, topic: str) -> set[int]:
    found = image.topics.get(topic)
    return set() if found is None else set(found.partitions)


def _unknown(topic: str, indexes: list[int]) -> TxnOffsetCommitResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions = [TxnOffsetCommitResponsePartition(partition_index=index, error_code=code) for index in indexes]
    return TxnOffsetCommitResponseTopic(name=topic, partitions=partitions)


def _verify(context: Context, request: TxnOffsetCommitRequest, finish: Finish, deadline: int) -> Answer:
    """Verify with the transaction's coordinator first, if this partition does not know the transaction."""
    where = offsets_partition(request.group_id, context)
    partition = context.broker.replicas.get(*where)
    if partition is None or not request.group_id:
        return submit(request, context, finish)
    if context.broker.verifying.is_busy(request.producer_id):
        if context.now.mono >= deadline:
            return finish(transactional_commit_error(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return verification.wait_for(request.producer_id, deadline, _verify, (request, finish, deadline))
    known = partition.log.producers.has_open(request.producer_id, request.producer_epoch)
    adds = context.version >= VERSION_2_SINCE
    if known or not (adds or context.broker.config.transaction_partition_verification_enable):
        return submit(request, context, finish)
    pending = verification.request(
        context,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [partition],
        verify_only=not adds,
    )
    return verification.wait_for(request.producer_id, deadline, _verified, (request, finish, pending))


def _verified(
    context: Context, request: TxnOffsetCommitRequest, finish: Finish, pending: PendingVerification
) -> Answer:
    try:
        pending.check(offsets_partition(request.group_id, context), abortable=context.version >= ABORTABLE_SINCE)
    except ApiError as error:
        return finish(transactional_commit_error(request, COORDINATOR.get(error.code, error.code)))
    return submit(request, context, finish)


COORDINATOR = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""Another coordinator could not answer: the client is to retry with this one."""


def _finish(
    version: int, refused: dict[str, TxnOffsetCommitResponseTopic], response: TxnOffsetCommitResponse
) -> TxnOffsetCommitResponse:
    for topic in response.topics:
        before = refused.setdefault(topic.name, topic)
        if before is not topic:
            before.partitions += topic.partitions
    response.topics = list(refused.values())
    for topic in response.topics if version < LOADING_SINCE else ():
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return response
