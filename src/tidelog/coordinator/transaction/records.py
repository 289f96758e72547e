"""The records of `__transaction_state`, in Kafka's formats, so that Kafka's tools can read them.

A key begins with the type of its record (0), a value with its version. Kafka writes version 1 if the cluster's
transaction.version is at least 1. A tombstone removes the transactional ID.
"""

import struct

from tidelog.coordinator.contract import Change
from tidelog.coordinator.transaction.transaction import BY_NUMBER, NO_TIME, Transaction, TransactionState
from tidelog.errors import CorruptLog, ProtocolViolation
from tidelog.model import TopicPartition
from tidelog.wire import codec
from tidelog.wire.messages.transactions.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

_TYPE = struct.Struct(">h")
_KEY_TYPE = 0
_VERSION = 1


def encode(change: Change) -> tuple[bytes, bytes | None]:
    """Key and value of the record; the change's key is a transactional ID, its value a Transaction or None."""
    key = _TYPE.pack(_KEY_TYPE) + codec.encode(TransactionLogKey(transactional_id=change.key), 0)
    return key, None if change.value is None else _TYPE.pack(_VERSION) + codec.encode(_value(change.value), _VERSION)


def _value(transaction: Transaction) -> TransactionLogValue:
    """As in Kafka, an ID in state Empty has no list of partitions."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    partitions = [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()]
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.number,
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.updated,
        transaction_start_timestamp_ms=transaction.started,
        client_transaction_version=transaction.version,
    )


def decode(key: bytes, value: bytes | None) -> Change | None:
    """The change that a record describes; None for other record types. Raises CorruptLog if it cannot be read."""
    try:
        if _TYPE.unpack_from(key)[0] != _KEY_TYPE:
            return None
        transactional_id = codec.decode(TransactionLogKey, 0, key[2:]).transactional_id
        if value is None:
            return Change(transactional_id, None)
        found = codec.decode(TransactionLogValue, _TYPE.unpack_from(value)[0], value[2:])
        return Change(transactional_id, _transaction(transactional_id, found))
    except (ProtocolViolation, struct.error, KeyError) as error:
        raise CorruptLog(f"a record of the transaction topic cannot be read: {error}") from error


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    partitions = frozenset(
        TopicPartition(topic.topic, partition)
        for topic in value.transaction_partitions or ()
        for partition in topic.partition_ids
    )
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        state=BY_NUMBER[value.transaction_status],
        timeout_ms=value.transaction_timeout_ms,
        partitions=partitions,
        started=value.transaction_start_timestamp_ms or NO_TIME,
        updated=value.transaction_last_update_timestamp_ms,
        version=value.client_transaction_version,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
    )
