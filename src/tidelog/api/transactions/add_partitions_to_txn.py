"""AddPartitionsToTxn (24): from version 4 on leaders send it for many transactions, before that producers for their
own.

If one partition is refused, none is added.
"""

from functools import partial

from tidelog.api.context import Context, Pending
from tidelog.api.transactions.transaction_requests import fencing, submit
from tidelog.controller.image import ClusterImage
from tidelog.coordinator.transaction import AddPartitions, AddPartitionsResult
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.messages.transactions.transaction_requests import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_SINCE = 2
BATCHED_SINCE = 4
VERSION_2_SINCE = 5
"""Callers of this version use transaction version 2."""

Codes = dict[TopicPartition, ErrorCode]


def handle(request: AddPartitionsToTxnRequest, context: Context) -> AddPartitionsToTxnResponse | Pending:
    transactions = request.transactions if context.version >= BATCHED_SINCE else [_as_batch(request)]
    refused = [_refused(transaction, context.broker.image) for transaction in transactions]
    to_add = [
        _to_add(transaction, context.version)
        for transaction, codes in zip(transactions, refused, strict=True)
        if not codes
    ]
    return submit(to_add, context, partial(_finish, context.version, transactions, refused))


def _as_batch(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _partitions(transaction: AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]


def _refused(transaction: AddPartitionsToTxnTransaction, image: ClusterImage) -> Codes:
    """A code for every partition where the transaction cannot be given to the coordinator; else nothing."""
    partitions = _partitions(transaction)
    known = [partition for partition in partitions if _exists(image, partition)]
    if len(known) < len(partitions):
        codes = dict.fromkeys(partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return codes | dict.fromkeys(known, ErrorCode.OPERATION_NOT_ATTEMPTED)
    return {} if transaction.transactional_id else dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)


def _exists(image: ClusterImage, partition: TopicPartition) -> bool:
    topic = image.topics.get(partition.topic)
    return topic is not None and partition.partition in topic.partitions


def _to_add(transaction: AddPartitionsToTxnTransaction, version: int) -> AddPartitions:
    return AddPartitions(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        epoch=transaction.producer_epoch,
        partitions=frozenset(_partitions(transaction)),
        version=2 if version >= VERSION_2_SINCE else 0,
        verify_only=transaction.verify_only,
    )


def _finish(
    version: int,
    transactions: list[AddPartitionsToTxnTransaction],
    refused: list[Codes],
    found: list[AddPartitionsResult],
) -> AddPartitionsToTxnResponse:
    left = iter(found)
    results = [
        AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=_topics(transaction, codes or _codes(transaction, next(left), version)),
        )
        for transaction, codes in zip(transactions, refused, strict=True)
    ]
    if version < BATCHED_SINCE:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _codes(transaction: AddPartitionsToTxnTransaction, added: AddPartitionsResult, version: int) -> Codes:
    code = fencing(added.code, version, FENCED_SINCE)
    return {
        partition: ErrorCode.TRANSACTION_ABORTABLE if partition in added.unknown else code
        for partition in _partitions(transaction)
    }


def _topics(transaction: AddPartitionsToTxnTransaction, codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ],
        )
        for topic in transaction.topics
    ]
