"""What time does to transactions: those that are open too long are aborted, ids that nobody uses are forgotten."""

from functools import partial

from tidelog.coordinator.contract import Change, Result
from tidelog.coordinator.transaction.ending import fence
from tidelog.coordinator.transaction.machine import TransactionMachine
from tidelog.coordinator.transaction.state import IDLE

MAX_TOMBSTONES = 1000
"""In one batch, which must not exceed max.message.bytes; the rest goes in the next."""


def begin(machine: TransactionMachine) -> None:
    _set_abort(machine)
    _set_expire(machine)


def _set_abort(machine: TransactionMachine) -> None:
    delay_ms = machine.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
    machine.shard.set_timer("abort", delay_ms, partial(abort_overdue, machine))


def _set_expire(machine: TransactionMachine) -> None:
    delay_ms = machine.config.transaction_remove_expired_transaction_cleanup_interval_ms
    machine.shard.set_timer("expire", delay_ms, partial(expire, machine))


def abort_overdue(machine: TransactionMachine) -> Result:
    _set_abort(machine)
    overdue = [
        transaction for transaction in machine.transactions.newest.values() if transaction.is_overdue(machine.wall)
    ]
    changes: list[Change] = []
    for transaction in overdue:
        machine.shard.event("transaction.overdue", transactional_id=transaction.transactional_id)
        changes += fence(machine, transaction).changes
    return Result(changes=changes)


def expire(machine: TransactionMachine) -> Result:
    oldest = machine.wall - machine.config.transactional_id_expiration_ms
    unused = [
        transactional_id
        for transactional_id, transaction in machine.transactions.newest.items()
        if transaction.state in IDLE and transaction.updated <= oldest
    ]
    if len(unused) > MAX_TOMBSTONES:
        machine.shard.set_timer("expire", 0, partial(expire, machine))
    else:
        _set_expire(machine)
    return Result(changes=[Change(transactional_id, None) for transactional_id in unused[:MAX_TOMBSTONES]])
