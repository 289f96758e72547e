"""The requests of a transactional producer, and the error codes of their responses."""

from collections.abc import Collection, Mapping
from typing import Any

from tidelog.client.cluster import by_topic
from tidelog.client.results import CommittedOffset, GroupPlace, code_of
from tidelog.client.sending.sequences import Sequences
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.messages.transactions.transaction_requests import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


def init(transactional_id: str, numbers: Sequences, timeout_ms: int) -> InitProducerIdRequest:
    """InitProducerId with the current ID and epoch, if there are any, for the next epoch."""
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=numbers.producer_id,
        producer_epoch=numbers.epoch,
    )


def add_partitions(
    transactional_id: str, numbers: Sequences, partitions: Collection[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """AddPartitionsToTxn in the form of version 3, the newest for clients."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=numbers.producer_id,
        v3_and_below_producer_epoch=numbers.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic(partitions)
        ],
    )


def add_offsets(transactional_id: str, numbers: Sequences, group_id: str) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=numbers.producer_id,
        producer_epoch=numbers.epoch,
        group_id=group_id,
    )


def commit_offsets(
    transactional_id: str, numbers: Sequences, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupPlace
) -> TxnOffsetCommitRequest:
    topics = [
        TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=[_position(number, offsets[TopicPartition(topic, number)]) for number in numbers_of],
        )
        for topic, numbers_of in by_topic(offsets)
    ]
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=numbers.producer_id,
        producer_epoch=numbers.epoch,
        generation_id=group.generation,
        member_id=group.member_id,
        group_instance_id=group.instance_id,
        topics=topics,
    )


def end(transactional_id: str, numbers: Sequences, *, commit: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=numbers.producer_id,
        producer_epoch=numbers.epoch,
        committed=commit,
    )


def _position(number: int, offset: CommittedOffset) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def worst_added(response: Any) -> ErrorCode:
    """The first code that is more specific than OPERATION_NOT_ATTEMPTED."""
    results = [result for topic in response.results_by_topic_v3_and_below for result in topic.results_by_partition]
    codes = [code_of(result.partition_error_code) for result in results]
    specific = (code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED))
    return next(specific, ErrorCode.NONE)


def worst_committed(response: Any) -> ErrorCode:
    codes = (code_of(partition.error_code) for topic in response.topics for partition in topic.partitions)
    return next((code for code in codes if code), ErrorCode.NONE)
