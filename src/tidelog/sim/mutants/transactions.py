"""Replacements in the rules of transactions."""

# ruff: noqa: ARG001, SLF001  (a replacement has the parameters of what it replaces, and its place inside)

from dataclasses import replace
from typing import Any

from tidelog.coordinator.transaction.transaction import Transaction
from tidelog.log.producers import Producer, Producers

ending = Transaction.ending


def stable_without_markers(producers: Producers, high_watermark: int) -> int:
    """For `Producers.last_stable_offset`: a marker counts before it is committed."""
    return min(high_watermark, next(iter(producers._open.values()), high_watermark))


def ending_in_its_epoch(transaction: Transaction, wall: int, version: int, **outcome: Any) -> Transaction:
    """For `Transaction.ending`: the producer goes on in the epoch of the transaction that has ended."""
    ended = ending(transaction, wall, version, **outcome)
    return replace(ended, epoch=transaction.epoch, last_epoch=transaction.last_epoch)


def may_end_in_its_epoch(producer: Producer, epoch: int, *, raised: bool) -> bool:
    """For `_may_end`: markers are believed whose epoch was not raised."""
    return epoch >= producer.epoch
