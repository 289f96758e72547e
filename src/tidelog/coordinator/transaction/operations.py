"""The operations on a transactional ID: InitProducerId, AddPartitionsToTxn, EndTxn, timeout and expiration.

InitProducerId: a producer takes over a transactional ID. The previous producer is fenced.

AddPartitionsToTxn: partitions are added to a transaction before it has records there, or are looked up (KIP-890).
Leaders send this request themselves when a producer of transaction version 2 first writes to them; for older producers
they only verify.

EndTxn: the decision. The markers are sent once it is committed; the producer is answered at once. In transaction
version 2 the decision raises the epoch, so a request with the previous epoch is a retry. In older versions only the
state distinguishes a retry from a late end, and the state may be outdated: a coordinator that was replaced and does not
know it would answer for the next transaction with the outcome of the last one that it knows. Such an answer is
therefore confirmed (`Result.confirm`), as is every refusal after which a producer cannot continue: what is unknown here
may be known to a successor.

While markers are being written, every EndTxn is answered CONCURRENT_TRANSACTIONS, whatever its epoch: the producer has
its next epoch by then and may end an empty transaction with it before the previous one is complete.

Transactions that exceed their timeout are aborted; unused transactional IDs expire.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tidelog.coordinator.contract import Change, Result
from tidelog.coordinator.transaction.machine import HeldRequest, TransactionMachine
from tidelog.coordinator.transaction.transaction import (
    COMPLETE,
    IDLE,
    LAST_CLIENT_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    RAISES_EPOCH,
    Transaction,
    TransactionState,
)
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition


class InitProducerId(NamedTuple):
    """`producer_id` and `epoch` are those that the producer has, if it continues after an error (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH

    @property
    def names_producer(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID


class InitProducerIdResult(NamedTuple):
    code: ErrorCode
    producer_id: int = -1
    epoch: int = -1


def init(
    machine: TransactionMachine, request: InitProducerId, token: int, refuse: Callable[[ErrorCode], Any]
) -> Result:
    """Raises ApiError if the producer may not have the ID. An open transaction is aborted first."""
    known = machine.find(request.transactional_id)
    if known is None:
        known = Transaction(request.transactional_id, machine.new_producer_id())
    if request.names_producer and not _is_valid(known, request):
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    held = HeldRequest(token, partial(init, machine, request, token, refuse), refuse)
    if known.is_prepared:
        machine.hold(request.transactional_id, held)
        return Result()
    if known.state is TransactionState.ONGOING:
        machine.hold(request.transactional_id, held)
        result = fence(machine, known)
        result.on_done = partial(_fenced, machine, request.transactional_id, held)
        return result
    begun = _initialized(machine, known, request)
    return machine.change(InitProducerIdResult(ErrorCode.NONE, begun.producer_id, begun.epoch), begun)


def _fenced(machine: TransactionMachine, transactional_id: str, held: HeldRequest, code: ErrorCode) -> Result:
    return Result() if code == ErrorCode.NONE else machine.release(transactional_id, held, code)


def _is_valid(known: Transaction, request: InitProducerId) -> bool:
    """Whether the producer is the present one, the next one (which the client already has), or the one that used up the
    epochs and missed the response."""
    return (
        known.epoch == NO_EPOCH
        or known.is_next(request.producer_id, request.epoch)
        or request.producer_id == known.producer_id
        or (request.producer_id == known.previous_producer_id and request.epoch >= LAST_CLIENT_EPOCH)
    )


def _initialized(machine: TransactionMachine, known: Transaction, request: InitProducerId) -> Transaction:
    timeout_ms, wall = request.timeout_ms, machine.wall
    expecting = request.names_producer
    if known.is_exhausted and (not expecting or request.epoch == known.epoch):
        return known.rotated(machine.new_producer_id(), timeout_ms, wall, expected=expecting)
    if not expecting or known.epoch in (NO_EPOCH, request.epoch):
        return known.renewed(timeout_ms, wall, expected=expecting)
    if request.epoch == known.last_epoch:
        return known.repeated(timeout_ms, wall)
    raise ApiError(ErrorCode.PRODUCER_FENCED)


class AddPartitions(NamedTuple):
    """`version` is the transaction version of the client."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]
    version: int = 0
    verify_only: bool = False


class AddPartitionsResult(NamedTuple):
    """One code for all; `unknown` are partitions that are not in the transaction."""

    code: ErrorCode
    unknown: frozenset[TopicPartition] = frozenset()


def add(machine: TransactionMachine, request: AddPartitions, token: int, refuse: Callable[[ErrorCode], Any]) -> Result:
    """Raises ApiError if the producer is not the present one. In older versions, partitions that are in the transaction
    already may be those of the previous transaction, which a new coordinator has ended (see above)."""
    transaction = _checked_transaction(machine, request)
    if transaction.is_prepared:
        held = HeldRequest(token, partial(add, machine, request, token, refuse), refuse)
        machine.hold(request.transactional_id, held)
        return Result()
    if transaction.state is TransactionState.ONGOING and request.partitions <= transaction.partitions:
        return Result(AddPartitionsResult(ErrorCode.NONE), confirm=request.version < RAISES_EPOCH)
    return machine.change(
        AddPartitionsResult(ErrorCode.NONE),
        transaction.with_partitions(request.partitions, machine.wall, request.version),
    )


def verify(machine: TransactionMachine, request: AddPartitions) -> Result:
    """Whether the partitions are in the transaction. That one is not refuses what the producer sent there, and is
    confirmed like a refusal. Raises ApiError as `add` does."""
    transaction = _checked_transaction(machine, request)
    if transaction.is_prepared:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    unknown = request.partitions - transaction.partitions
    return Result(AddPartitionsResult(ErrorCode.NONE, unknown), confirm=bool(unknown))


def _checked_transaction(machine: TransactionMachine, request: AddPartitions) -> Transaction:
    transaction = machine.find(request.transactional_id)
    if transaction is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.is_next(request.producer_id, request.epoch):
        return transaction  # the producer has its next id already
    if transaction.producer_id != request.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != request.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    return transaction


class EndTransaction(NamedTuple):
    """`version` is the transaction version of the client."""

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool
    version: int = 0


class EndTransactionResult(NamedTuple):
    """With the epoch for the next transaction."""

    code: ErrorCode
    producer_id: int = -1
    epoch: int = -1


def end(machine: TransactionMachine, request: EndTransaction) -> Result:
    """Raises ApiError if the producer is not the present one, or if there is nothing to end in this way."""
    transaction = machine.find(request.transactional_id)
    if transaction is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    raises = request.version >= RAISES_EPOCH
    is_retry = raises and _is_retry(transaction, request)
    is_present = request.producer_id == transaction.producer_id or transaction.is_next(
        request.producer_id, request.epoch
    )
    if not (is_present or is_retry):
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.is_prepared and (raises or request.epoch == transaction.epoch):
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if request.epoch != transaction.epoch and not is_retry:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is TransactionState.ONGOING:
        return _decide(machine, transaction, request)
    if transaction.state in COMPLETE and (is_retry or not raises):
        return _repeat_end(transaction, request)
    if raises and not request.commit:
        return _decide(machine, transaction, request)  # an abort of nothing, which raises the epoch all the same
    raise ApiError(ErrorCode.INVALID_TXN_STATE)


def _is_retry(transaction: Transaction, request: EndTransaction) -> bool:
    """Whether this end was answered before: its epoch was raised since, or used up. The next epoch may also belong to a
    producer that took over the ID; if that is an older client, its end does not raise the epoch, and this is no retry
    of it."""
    if transaction.version < RAISES_EPOCH:
        return False
    if transaction.producer_id == request.producer_id:
        return (
            transaction.epoch == request.epoch + 1
            and transaction.state is not TransactionState.ONGOING
            and (transaction.state is not TransactionState.EMPTY)
        )
    return (
        transaction.previous_producer_id == request.producer_id
        and request.epoch == LAST_CLIENT_EPOCH
        and transaction.epoch == 0
        and transaction.state in COMPLETE
    )


def _repeat_end(transaction: Transaction, request: EndTransaction) -> Result:
    if transaction.is_commit != request.commit:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    answer = EndTransactionResult(ErrorCode.NONE, transaction.producer_id, transaction.epoch)
    return Result(answer, confirm=request.version < RAISES_EPOCH)


def _decide(machine: TransactionMachine, transaction: Transaction, request: EndTransaction) -> Result:
    """The marker takes the last epoch of a producer ID; the next transaction gets another ID."""
    rotates = request.version >= RAISES_EPOCH and transaction.is_exhausted
    next_id = machine.new_producer_id() if rotates else NO_PRODUCER_ID
    decided = transaction.ending(machine.wall, request.version, commit=request.commit, next_producer_id=next_id)
    answer = (
        EndTransactionResult(ErrorCode.NONE, next_id, 0)
        if rotates
        else EndTransactionResult(ErrorCode.NONE, decided.producer_id, decided.epoch)
    )
    return machine.change(answer, decided)


def fence(machine: TransactionMachine, transaction: Transaction) -> Result:
    """Abort an open transaction whatever its producer does, with an epoch that no producer was given."""
    aborted = transaction.ending(machine.wall, RAISES_EPOCH, commit=False)
    return Result(changes=machine.change(None, aborted).changes)


MAX_TOMBSTONES = 1000
"""Limit of one batch, which must not exceed max.message.bytes; the rest goes in the next one."""


def start_timers(machine: TransactionMachine) -> None:
    _set_abort_timer(machine)
    _set_expiry_timer(machine)


def _set_abort_timer(machine: TransactionMachine) -> None:
    delay_ms = machine.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
    machine.shard.set_timer("abort", delay_ms, partial(abort_timed_out, machine))


def _set_expiry_timer(machine: TransactionMachine) -> None:
    delay_ms = machine.config.transaction_remove_expired_transaction_cleanup_interval_ms
    machine.shard.set_timer("expire", delay_ms, partial(expire_unused, machine))


def abort_timed_out(machine: TransactionMachine) -> Result:
    _set_abort_timer(machine)
    timed_out = [
        transaction for transaction in machine.transactions.newest.values() if transaction.has_timed_out(machine.wall)
    ]
    changes: list[Change] = []
    for transaction in timed_out:
        machine.shard.event("transaction.overdue", transactional_id=transaction.transactional_id)
        changes += fence(machine, transaction).changes
    return Result(changes=changes)


def expire_unused(machine: TransactionMachine) -> Result:
    oldest = machine.wall - machine.config.transactional_id_expiration_ms
    unused = [
        transactional_id
        for transactional_id, transaction in machine.transactions.newest.items()
        if transaction.state in IDLE and transaction.updated <= oldest
    ]
    if len(unused) > MAX_TOMBSTONES:
        machine.shard.set_timer("expire", 0, partial(expire_unused, machine))
    else:
        _set_expiry_timer(machine)
    return Result(changes=[Change(transactional_id, None) for transactional_id in unused[:MAX_TOMBSTONES]])
