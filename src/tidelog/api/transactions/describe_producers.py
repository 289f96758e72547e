"""DescribeProducers (61): the producers that a replica knows, leader or not: a tool that looks for hanging
transactions asks one broker for all its replicas (KIP-664)."""

from tidelog.api.context import Context
from tidelog.api.records.leaders import find
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.transactions.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(request: DescribeProducersRequest, context: Context) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_partition(context, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _partition(context: Context, topic: str, index: int) -> PartitionResponse:
    try:
        partition = find(context.broker, topic, index)
    except ApiError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=_message(error.code))
    states = [
        ProducerState(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.transaction_start,
        )
        for producer in partition.log.producers.values()
    ]
    return PartitionResponse(partition_index=index, active_producers=states)


def _message(code: ErrorCode) -> str | None:
    return None if code == ErrorCode.NONE else code.name.replace("_", " ").lower()
