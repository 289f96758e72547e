"""InitProducerId: a producer takes a transactional id over, and whoever had it before is fenced."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tidelog.coordinator.contract import Result
from tidelog.coordinator.transaction.ending import fence
from tidelog.coordinator.transaction.machine import Held, TransactionMachine
from tidelog.coordinator.transaction.state import TransactionState
from tidelog.coordinator.transaction.transaction import (
    LAST_CLIENT_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
)
from tidelog.errors import ApiError, ErrorCode


class Init(NamedTuple):
    """`producer_id` and `epoch` are what the producer has by now, where it goes on after an error (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH

    @property
    def is_expecting(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID


class Inited(NamedTuple):
    code: ErrorCode
    producer_id: int = -1
    epoch: int = -1


def init(machine: TransactionMachine, asked: Init, token: int, refuse: Callable[[ErrorCode], Any]) -> Result:
    """ApiError where the producer may not have the id. An open transaction is aborted first."""
    known = machine.find(asked.transactional_id)
    if known is None:
        known = Transaction(asked.transactional_id, machine.new_producer_id())
    if asked.is_expecting and not _is_valid(known, asked):
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    held = Held(token, partial(init, machine, asked, token, refuse), refuse)
    if known.is_prepared:
        machine.hold(asked.transactional_id, held)
        return Result()
    if known.state is TransactionState.ONGOING:
        machine.hold(asked.transactional_id, held)
        result = fence(machine, known)
        result.settled = partial(_fenced, machine, asked.transactional_id, held)
        return result
    begun = _begun(machine, known, asked)
    return machine.change(Inited(ErrorCode.NONE, begun.producer_id, begun.epoch), begun)


def _fenced(machine: TransactionMachine, transactional_id: str, held: Held, code: ErrorCode) -> Result:
    return Result() if code == ErrorCode.NONE else machine.release(transactional_id, held, code)


def _is_valid(known: Transaction, asked: Init) -> bool:
    """The present producer, the one that is to be the next, as it was told already, or the one that had the id until
    its epochs were used up and missed the answer."""
    return (
        known.epoch == NO_EPOCH
        or known.is_next(asked.producer_id, asked.epoch)
        or asked.producer_id == known.producer_id
        or (asked.producer_id == known.previous_producer_id and asked.epoch >= LAST_CLIENT_EPOCH)
    )


def _begun(machine: TransactionMachine, known: Transaction, asked: Init) -> Transaction:
    timeout_ms, wall = asked.timeout_ms, machine.wall
    expecting = asked.is_expecting
    if known.is_exhausted and (not expecting or asked.epoch == known.epoch):
        return known.rotated(machine.new_producer_id(), timeout_ms, wall, expected=expecting)
    if not expecting or known.epoch in (NO_EPOCH, asked.epoch):
        return known.renewed(timeout_ms, wall, expected=expecting)
    if asked.epoch == known.last_epoch:
        return known.repeated(timeout_ms, wall)
    raise ApiError(ErrorCode.PRODUCER_FENCED)
