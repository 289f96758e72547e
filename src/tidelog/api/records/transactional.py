"""What a produce request of a transactional producer waits for before its batches are appended (KIP-890).

The first batch of a transaction in a partition waits for the transaction's coordinator: to verify that the producer
had added the partition, or, from Produce v12 on, to add it. Requests of the same producer that come meanwhile wait
behind it, so that their sequences keep their order.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tidelog.api.context import Context
from tidelog.api.transactions import verification
from tidelog.api.transactions.verification import Guard, PendingVerification
from tidelog.errors import ApiError, ErrorCode
from tidelog.log.producers import RAISES_EPOCH
from tidelog.model import TopicPartition
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest
from tidelog.wire.records import ATTRIBUTES_POSITION, HEADER_BYTES, MAGIC, MAGIC_POSITION, TRANSACTIONAL, BatchHeader
from tidelog.wire.records import header as batch_header

TOPIC_IDS_SINCE = 13
ABORTABLE_SINCE = 11
ADDS_SINCE = 12

Refused = dict[TopicPartition, ApiError]
Proceed = Callable[[Context, ProduceRequest, Refused], Any]


def transaction_version(version: int) -> int:
    """The transaction version in which a client of this version of Produce speaks."""
    return RAISES_EPOCH if version >= ADDS_SINCE else 0


class Batch(NamedTuple):
    """A transactional batch of the request."""

    name: TopicPartition
    header: BatchHeader


def verify(request: ProduceRequest, context: Context, proceed: Proceed) -> Any:
    """What `proceed` gives, or what the request waits for before that."""
    return _verify_or_proceed(context, request, proceed, context.now.mono + max(request.timeout_ms, 0), is_late=False)


def _verify_or_proceed(
    context: Context, request: ProduceRequest, proceed: Proceed, deadline: int, *, is_late: bool
) -> Any:
    broker, found = context.broker, list(_transactional(request, context))
    if not found:
        return proceed(context, request, {})
    if len({batch.header.producer_id for batch in found}) > 1:
        error = ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of more than one producer")
        return proceed(context, request, {batch.name: error for batch in found})
    first = found[0].header
    if broker.verifying.is_busy(first.producer_id):
        if is_late:
            error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, "the transaction could not be verified in time")
            return proceed(context, request, {batch.name: error for batch in found})
        _copy_records(request)
        return verification.wait_for(first.producer_id, deadline, _verify_again, (request, proceed, deadline))
    adds = context.version >= ADDS_SINCE
    unknown = [partition for batch in found if (partition := _unverified(context, batch)) is not None]
    if not unknown or not (adds or broker.config.transaction_partition_verification_enable):
        return proceed(context, request, {})
    transactional_id = request.transactional_id or ""
    pending = verification.request(
        context, transactional_id, first.producer_id, first.producer_epoch, unknown, verify_only=not adds
    )
    _copy_records(request)
    return verification.wait_for(first.producer_id, deadline, _verified, (request, proceed, pending))


def _verify_again(context: Context, request: ProduceRequest, proceed: Proceed, deadline: int) -> Any:
    """The verification before this request was answered, or it took too long."""
    return _verify_or_proceed(context, request, proceed, deadline, is_late=context.now.mono >= deadline)


def _verified(context: Context, request: ProduceRequest, proceed: Proceed, pending: PendingVerification) -> Any:
    refused = _not_verified(context, request, pending)
    for name in pending.guards:
        try:
            pending.check(name, abortable=context.version >= ABORTABLE_SINCE)
        except ApiError as error:
            is_early = error.code == ErrorCode.CONCURRENT_TRANSACTIONS and context.version < ADDS_SINCE
            refused[name] = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, error.message) if is_early else error
    return proceed(context, request, refused)


def _not_verified(context: Context, request: ProduceRequest, pending: PendingVerification) -> Refused:
    """The batches that would begin a transaction only now: when the verification was requested, this broker did not
    lead their partition, or the transaction was open there. They are refused; their retry is verified for itself."""
    found = _transactional(request, context)
    names = [batch.name for batch in found if batch.name not in pending.guards and _unverified(context, batch)]
    return {name: ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, "the transaction was not verified here") for name in names}


def begin_wait(context: Context, batch: BatchHeader, partition: Partition) -> Guard | None:
    """For a batch of a transaction that was verified, and is not appended yet: what a marker voids meanwhile."""
    is_guarded = context.version < ADDS_SINCE and context.broker.config.transaction_partition_verification_enable
    if not is_guarded or not batch.is_transactional or batch.producer_id < 0:
        return None
    return verification.guard(partition, batch.producer_id)


def end_wait(guard: Guard | None, batch: BatchHeader) -> None:
    """ApiError if the transaction has ended: the batch would begin another one, which nobody would end."""
    if guard is not None and not guard.holds(batch.producer_id):
        raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, "the transaction ended before its batch was appended")


def _copy_records(request: ProduceRequest) -> None:
    """Records are views that die with this turn."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, memoryview):
                data.records = bytearray(data.records)


def _transactional(request: ProduceRequest, context: Context) -> Iterator[Batch]:
    for topic in request.topic_data:
        name = topic.name if context.version < TOPIC_IDS_SINCE else context.broker.topic_name(topic.topic_id)
        for data in topic.partition_data if name is not None else ():
            header = _header(data)
            if header is not None and header.is_transactional and header.producer_id >= 0:
                yield Batch(TopicPartition(name or "", data.index), header)


def _header(data: PartitionProduceData) -> BatchHeader | None:
    """None if there is no transactional batch; its errors are reported when it is appended."""
    records = data.records
    if not isinstance(records, memoryview | bytes | bytearray) or len(records) < HEADER_BYTES:
        return None
    if records[MAGIC_POSITION] != MAGIC or not records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL:
        return None
    try:
        return batch_header(records)
    except ApiError:
        return None


def _unverified(context: Context, batch: Batch) -> Partition | None:
    """The partition, if this batch would begin a transaction there. A batch that comes again begins none."""
    partition = context.broker.replicas.get(*batch.name)
    if partition is None or not isinstance(partition.role, Leader):
        return None
    header, producers = batch.header, partition.log.producers
    if producers.has_open(header.producer_id, header.producer_epoch):
        return None
    known = producers.get(header.producer_id)
    is_again = known is not None and known.epoch == header.producer_epoch and known.duplicate_of(header) is not None
    return None if is_again else partition
