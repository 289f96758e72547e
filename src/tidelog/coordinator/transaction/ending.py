"""EndTxn: the decision. Once it is committed the markers go out; the producer is answered at once.

In transaction version 2 the decision raises the epoch, so a request with the epoch before it is the same one again. In
the older version nothing tells a repeated end from one that comes too late but the state, and that may be of before: a
coordinator that was replaced and not told would answer for the next transaction with the outcome of the last one that
it knows. So it writes what it knows once more, and answers when that is committed, which without its office it never
is.

While markers are on their way, whoever has the id is told to come again, whatever its epoch: the producer has its next
one by then, and may end an empty transaction with it before the one before is complete.
"""

from typing import NamedTuple

from tidelog.coordinator.contract import Result
from tidelog.coordinator.transaction.machine import TransactionMachine
from tidelog.coordinator.transaction.state import COMPLETE, TransactionState
from tidelog.coordinator.transaction.transaction import LAST_CLIENT_EPOCH, NO_PRODUCER_ID, RAISES_EPOCH, Transaction
from tidelog.errors import ApiError, ErrorCode


class EndTransaction(NamedTuple):
    """`version` is the transaction version in which the client speaks."""

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool
    version: int = 0


class Ended(NamedTuple):
    """With the epoch for the next transaction."""

    code: ErrorCode
    producer_id: int = -1
    epoch: int = -1


def end(machine: TransactionMachine, asked: EndTransaction) -> Result:
    """ApiError where the producer is not the present one, or there is nothing to end in this way."""
    transaction = machine.find(asked.transactional_id)
    if transaction is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    raises = asked.version >= RAISES_EPOCH
    is_again = raises and _is_again(transaction, asked)
    is_present = asked.producer_id == transaction.producer_id or transaction.is_next(asked.producer_id, asked.epoch)
    if not (is_present or is_again):
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.is_prepared and (raises or asked.epoch == transaction.epoch):
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if asked.epoch != transaction.epoch and not is_again:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is TransactionState.ONGOING:
        return _decide(machine, transaction, asked)
    if transaction.state in COMPLETE and (is_again or not raises):
        return _already(machine, transaction, asked)
    if raises and not asked.commit:
        return _decide(machine, transaction, asked)  # an abort of nothing, which raises the epoch all the same
    raise ApiError(ErrorCode.INVALID_TXN_STATE)


def _is_again(transaction: Transaction, asked: EndTransaction) -> bool:
    """Whether this end was answered before: its epoch was raised since, or used up. The next epoch is also that of
    whoever took the id over; where that is an older client its end leaves the epoch as it is, and is not this one."""
    if transaction.version < RAISES_EPOCH:
        return False
    if transaction.producer_id == asked.producer_id:
        return (
            transaction.epoch == asked.epoch + 1
            and transaction.state is not TransactionState.ONGOING
            and (transaction.state is not TransactionState.EMPTY)
        )
    return (
        transaction.previous_producer_id == asked.producer_id
        and asked.epoch == LAST_CLIENT_EPOCH
        and transaction.epoch == 0
        and transaction.state in COMPLETE
    )


def _already(machine: TransactionMachine, transaction: Transaction, asked: EndTransaction) -> Result:
    if transaction.is_commit != asked.commit:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    answer = Ended(ErrorCode.NONE, transaction.producer_id, transaction.epoch)
    if asked.version >= RAISES_EPOCH:
        return Result(answer)
    return machine.change(answer, transaction.confirmed(machine.wall))


def _decide(machine: TransactionMachine, transaction: Transaction, asked: EndTransaction) -> Result:
    """The last epoch of a producer id is spent on its marker; the next transaction gets another id."""
    rotates = asked.version >= RAISES_EPOCH and transaction.is_exhausted
    next_id = machine.new_producer_id() if rotates else NO_PRODUCER_ID
    decided = transaction.ending(machine.wall, asked.version, commit=asked.commit, next_producer_id=next_id)
    answer = Ended(ErrorCode.NONE, next_id, 0) if rotates else Ended(ErrorCode.NONE, decided.producer_id, decided.epoch)
    return machine.change(answer, decided)


def fence(machine: TransactionMachine, transaction: Transaction) -> Result:
    """Abort an open transaction whatever its producer does, with an epoch that its producer was never given."""
    aborted = transaction.ending(machine.wall, RAISES_EPOCH, commit=False)
    return Result(changes=machine.change(None, aborted).changes)
