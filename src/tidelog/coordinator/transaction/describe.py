"""DescribeTransactions and ListTransactions, from committed state."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.coordinator.transaction.machine import TransactionMachine
from tidelog.coordinator.transaction.transaction import Transaction, TransactionState
from tidelog.errors import ErrorCode
from tidelog.slices import SLICE, Sliced
from tidelog.wire.messages.transactions import transaction_admin

NO_DURATION = -1
STATES_BY_NAME = {state.value: state for state in TransactionState}


class DescribeTransactions(NamedTuple):
    transactional_ids: list[str]


class ListTransactions(NamedTuple):
    """An empty filter matches everything; `matches` tests the whole transactional ID."""

    states: frozenset[TransactionState] = frozenset()
    has_unknown_state: bool = False
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = NO_DURATION
    matches: Callable[[str], bool] | None = None


def describe(machine: TransactionMachine, transactional_id: str) -> Sliced[transaction_admin.TransactionState]:
    """Of the transaction as it is now: it is replaced, never changed."""
    return _described(machine.transactions.committed(transactional_id), transactional_id)


def _described(transaction: Transaction | None, transactional_id: str) -> Sliced[transaction_admin.TransactionState]:
    if transaction is None:
        return described_error(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = {}
    for count, (topic, partition) in enumerate(transaction.partitions, 1):
        topics.setdefault(topic, []).append(partition)
        if not count % (10 * SLICE):
            yield
    return transaction_admin.TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[transaction_admin.TopicData(topic=name, partitions=sorted(topics[name])) for name in sorted(topics)],
    )


def described_error(transactional_id: str, code: ErrorCode) -> transaction_admin.TransactionState:
    return transaction_admin.TransactionState(error_code=code, transactional_id=transactional_id)


def to_list(machine: TransactionMachine) -> list[Transaction]:
    return [transaction for _, transaction in machine.transactions.committed_items()]


def listed(
    request: ListTransactions, wall: int, transaction: Transaction
) -> transaction_admin.TransactionListing | None:
    """None for a transaction that the request does not want."""
    if request.producer_ids and transaction.producer_id not in request.producer_ids:
        return None
    if (request.states or request.has_unknown_state) and transaction.state not in request.states:
        return None
    if request.duration_ms >= 0 and wall - transaction.started <= request.duration_ms:
        return None
    if request.matches is not None and not request.matches(transaction.transactional_id):
        return None
    return transaction_admin.TransactionListing(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.value,
    )
