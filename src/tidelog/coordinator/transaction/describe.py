"""DescribeTransactions and ListTransactions, from committed state."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidelog.coordinator.transaction.machine import TransactionMachine
from tidelog.coordinator.transaction.transaction import Transaction, TransactionState
from tidelog.errors import ErrorCode
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


def describe(machine: TransactionMachine, transactional_id: str) -> transaction_admin.TransactionState:
    transaction = machine.transactions.committed(transactional_id)
    if transaction is None:
        return described_error(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return transaction_admin.TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[transaction_admin.TopicData(topic=name, partitions=indexes) for name, indexes in topics.items()],
    )


def described_error(transactional_id: str, code: ErrorCode) -> transaction_admin.TransactionState:
    return transaction_admin.TransactionState(error_code=code, transactional_id=transactional_id)


def list_all(machine: TransactionMachine, request: ListTransactions) -> list[transaction_admin.TransactionListing]:
    return [
        transaction_admin.TransactionListing(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.value,
        )
        for transaction in _matching((one for _, one in machine.transactions.committed_items()), request, machine.wall)
    ]


def _matching(transactions: Iterable[Transaction], request: ListTransactions, wall: int) -> Iterable[Transaction]:
    for transaction in transactions:
        if request.producer_ids and transaction.producer_id not in request.producer_ids:
            continue
        if (request.states or request.has_unknown_state) and transaction.state not in request.states:
            continue
        if request.duration_ms >= 0 and wall - transaction.started <= request.duration_ms:
            continue
        if request.matches is not None and not request.matches(transaction.transactional_id):
            continue
        yield transaction
