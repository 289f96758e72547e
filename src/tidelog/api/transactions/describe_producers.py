"""DescribeProducers (61): the producers that a replica knows, leader or not: a tool that looks for hanging
transactions asks one broker for all its replicas (KIP-664)."""

from tidelog.api.context import Context
from tidelog.api.records.leaders import find
from tidelog.errors import ApiError, ErrorCode
from tidelog.log.producers import Producer
from tidelog.slices import Sliced, made_of
from tidelog.wire.messages.transactions.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(request: DescribeProducersRequest, context: Context) -> Sliced[DescribeProducersResponse]:
    """One partition may have any number of producers."""
    response = DescribeProducersResponse()
    for topic in request.topics:
        answered = TopicResponse(name=topic.name)
        response.topics.append(answered)
        for index in topic.partition_indexes:
            answered.partitions.append((yield from _partition(context, topic.name, index)))
    return response


def _partition(context: Context, topic: str, index: int) -> Sliced[PartitionResponse]:
    try:
        partition = find(context.broker, topic, index)
    except ApiError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=_message(error.code))
    states = yield from made_of(list(partition.log.producers.values()), _state)
    return PartitionResponse(partition_index=index, active_producers=states)


def _state(producer: Producer) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_start,
    )


def _message(code: ErrorCode) -> str | None:
    return None if code == ErrorCode.NONE else code.name.replace("_", " ").lower()
