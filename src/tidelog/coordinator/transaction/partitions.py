"""AddPartitionsToTxn: partitions become part of a transaction before it has records there, or are looked up (KIP-890).

Leaders ask for this themselves when a producer of transaction version 2 first writes to them; for older producers they
only verify.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tidelog.coordinator.contract import Result
from tidelog.coordinator.transaction.machine import Held, TransactionMachine
from tidelog.coordinator.transaction.state import TransactionState
from tidelog.coordinator.transaction.transaction import RAISES_EPOCH, Transaction
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition


class AddPartitions(NamedTuple):
    """`version` is the transaction version in which the client speaks."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]
    version: int = 0
    verify_only: bool = False


class Added(NamedTuple):
    """One code for all; `unknown` are partitions that are not in the transaction."""

    code: ErrorCode
    unknown: frozenset[TopicPartition] = frozenset()


def add(machine: TransactionMachine, asked: AddPartitions, token: int, refuse: Callable[[ErrorCode], Any]) -> Result:
    """ApiError where the producer is not the present one. In older versions what is in the transaction is written
    again: that it is may be true of the one before, which has ended at a successor (`ending.py`)."""
    transaction = _checked(machine, asked)
    if transaction.is_prepared:
        held = Held(token, partial(add, machine, asked, token, refuse), refuse)
        machine.hold(asked.transactional_id, held)
        return Result()
    is_ongoing = transaction.state is TransactionState.ONGOING
    if is_ongoing and asked.partitions <= transaction.partitions and asked.version >= RAISES_EPOCH:
        return Result(Added(ErrorCode.NONE))
    return machine.change(
        Added(ErrorCode.NONE), transaction.with_partitions(asked.partitions, machine.wall, asked.version)
    )


def verify(machine: TransactionMachine, asked: AddPartitions) -> Result:
    """Whether the partitions are in the transaction; ApiError as above."""
    transaction = _checked(machine, asked)
    if transaction.is_prepared:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return Result(Added(ErrorCode.NONE, asked.partitions - transaction.partitions))


def _checked(machine: TransactionMachine, asked: AddPartitions) -> Transaction:
    transaction = machine.find(asked.transactional_id)
    if transaction is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.is_next(asked.producer_id, asked.epoch):
        return transaction  # the producer has its next id already
    if transaction.producer_id != asked.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != asked.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    return transaction
