"""The states of a transactional id, and which may follow which.

    Empty ──► Ongoing ──► PrepareCommit ──► CompleteCommit
      ▲          │                               │
      │          └──────► PrepareAbort ──► CompleteAbort
      └── InitProducerId ────────────────────────┘

A complete state leads back to Ongoing, and in transaction version 2, where an end without a beginning still raises the
epoch, to PrepareAbort. In older versions it is written again where its end is asked for again (`ending.py`).
"""

from enum import Enum


class TransactionState(Enum):
    """Names as Kafka shows them; the number is the one in records."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"

    @property
    def number(self) -> int:
        return _NUMBERS[self]


_NUMBERS = {state: number for number, state in enumerate(TransactionState)}
BY_NUMBER = {number: state for state, number in _NUMBERS.items()}

COMPLETE = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
IDLE = COMPLETE | {TransactionState.EMPTY}
"""Nothing is under way: the id may begin anew, or expire."""

FOLLOWS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: IDLE,
    TransactionState.ONGOING: IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: IDLE | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT}),
    TransactionState.DEAD: IDLE,
}
"""Which states a state may come after."""
