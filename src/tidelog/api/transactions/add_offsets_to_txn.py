"""AddOffsetsToTxn (25): the partition of the group's positions becomes part of the transaction."""

from tidelog.api.context import Context, Pending
from tidelog.api.transactions.to_transaction_coordinator import fencing, submit
from tidelog.coordinator.transaction import Added, AddPartitions
from tidelog.errors import ErrorCode
from tidelog.model import GROUP_TOPIC, TopicPartition
from tidelog.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_SINCE = 2


def handle(request: AddOffsetsToTxnRequest, context: Context) -> AddOffsetsToTxnResponse | Pending:
    if not request.transactional_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    asked = AddPartitions(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
        partitions=frozenset({partition_of(request.group_id, context)}),
    )

    def finish(added: Added) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=fencing(added.code, context.version, FENCED_SINCE))

    return submit(asked, context, finish)


def partition_of(group_id: str, context: Context) -> TopicPartition:
    """Where the group's positions are."""
    topic = context.broker.image.topics.get(GROUP_TOPIC)
    size = 0 if topic is None else len(topic.partitions)
    return TopicPartition(GROUP_TOPIC, context.broker.groups.partition_for(group_id, size))
