"""Produce requests made of batches, and what a broker's answer means for a batch or its producer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tidelog.client.metadata import Metadata
from tidelog.client.sending.batch import ProducerBatch
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID, TopicPartition
from tidelog.wire.messages.records.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.records import TRANSACTIONAL

_NEWEST_WITH_NAMES = 12


class SentRequest(NamedTuple):
    """What a request carried: the batches, and the topics' names by the IDs that the response may contain instead."""

    batches: Mapping[TopicPartition, ProducerBatch]
    names: Mapping[bytes, str]

    @property
    def newest(self) -> int:
        """The newest version that can be used: from 13 on, topics have only IDs."""
        return _NEWEST_WITH_NAMES if NO_ID in self.names else 32767

    def partition_answers(self, responses: Sequence[Any]) -> Iterator[tuple[TopicPartition, PartitionProduceResponse]]:
        """The response's partitions."""
        for topic in responses:
            name = topic.name or self.names.get(topic.topic_id, "")
            for partition in topic.partition_responses:
                yield TopicPartition(name, partition.index), partition


def produce_request(
    batches: Sequence[ProducerBatch],
    metadata: Metadata,
    *,
    acks: int,
    timeout_ms: int,
    compression: int,
    transactional_id: str | None = None,
) -> tuple[ProduceRequest, SentRequest]:
    """One request with one batch for each partition; with a transactional ID the batches are part of its
    transaction."""
    attributes = 0 if transactional_id is None else TRANSACTIONAL
    topics: dict[str, TopicProduceData] = {}
    for batch in batches:
        name, index = batch.partition
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = TopicProduceData(name=name, topic_id=metadata.topic_id(name))
        topic.partition_data.append(PartitionProduceData(index=index, records=batch.encoded(compression, attributes)))
    request = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values())
    )
    names = {topic.topic_id: name for name, topic in topics.items()}
    return request, SentRequest({batch.partition: batch for batch in batches}, names)


SEQUENCE_ERRORS = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""The broker's state of the producer differs from the producer's own."""

NOT_APPENDED = SEQUENCE_ERRORS | {
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
}
"""Errors that a broker returns before it appends anything. NOT_LEADER_OR_FOLLOWER is not one of them: a request that
waited for followers when the leadership moved receives it as well."""

TOPIC_ERRORS = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
FATAL_ERRORS = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
