"""A transactional ID as its coordinator knows it, its states and its transitions. Pure: each transition returns a new
value.

    Empty ──► Ongoing ──► PrepareCommit ──► CompleteCommit
      ▲          │                               │
      │          └──────► PrepareAbort ──► CompleteAbort
      └── InitProducerId ────────────────────────┘

A complete state leads back to Ongoing. In transaction version 2, where an end without a begin still raises the epoch,
it can also lead to PrepareAbort.

Epochs: clients get epochs below 32766, so that one is always left to fence them with. When the epochs are used up the
transactional ID gets another producer ID. In transaction version 2 every end raises the epoch (KIP-890): a late batch
or a late end then has an old epoch.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from tidelog.model import TopicPartition


class TransactionState(Enum):
    """Names as Kafka's tools print them; the number is the one in records."""

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
"""Nothing is in progress: a new transaction may begin, or the ID may expire."""

PREVIOUS_STATES: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: IDLE,
    TransactionState.ONGOING: IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: IDLE | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: IDLE,
}
"""State → the states that it may follow."""


NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIME = -1
LAST_EPOCH = 2**15 - 1
LAST_CLIENT_EPOCH = LAST_EPOCH - 1
RAISES_EPOCH = 2
"""The transaction version from which every end raises the epoch."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """Times are wall milliseconds. `version` is the transaction version of the client. `last_epoch` identifies a
    repeated InitProducerId; it is not in the log and therefore lost in a failover."""

    transactional_id: str
    producer_id: int
    epoch: int = NO_EPOCH
    state: TransactionState = TransactionState.EMPTY
    timeout_ms: int = 0
    partitions: frozenset[TopicPartition] = frozenset()
    started: int = NO_TIME
    updated: int = NO_TIME
    version: int = 0
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_epoch: int = NO_EPOCH

    def __repr__(self) -> str:
        return f"<{self.transactional_id!r} {self.state.value} producer {self.producer_id} epoch {self.epoch}>"

    @property
    def is_exhausted(self) -> bool:
        """Whether there would be no epoch left to fence the next one with."""
        return self.epoch >= LAST_CLIENT_EPOCH

    @property
    def is_prepared(self) -> bool:
        return self.state in PREPARED

    @property
    def is_commit(self) -> bool:
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    def has_timed_out(self, wall: int) -> bool:
        """Also true if the transaction began further in the future than its timeout: it was started by a wrong clock,
        and waiting for that time would take too long."""
        return self.state is TransactionState.ONGOING and abs(wall - self.started) > self.timeout_ms

    def is_next(self, producer_id: int, epoch: int) -> bool:
        """Whether this is the producer ID of the next transaction, which the client already has."""
        return self.is_prepared and (producer_id, epoch) == (self.next_producer_id, 0)

    def check_follows(self, before: "Transaction") -> None:
        """Raises AssertionError if this cannot come after `before`."""
        assert before.state in PREVIOUS_STATES[self.state], (before, self)
        assert self.producer_id != before.producer_id or self.epoch >= before.epoch, (before, self)

    # Transitions.

    def renewed(self, timeout_ms: int, wall: int, *, expected: bool) -> "Transaction":
        """The next epoch, for a producer that starts. `expected`: the producer named the present epoch, and may
        retry."""
        return self._empty(timeout_ms, wall, epoch=self.epoch + 1, last_epoch=self.epoch if expected else NO_EPOCH)

    def repeated(self, timeout_ms: int, wall: int) -> "Transaction":
        """The answer to a producer that retries for the epoch that it was given."""
        retry = self._empty(timeout_ms, wall, epoch=self.epoch, last_epoch=self.last_epoch)
        return replace(retry, previous_producer_id=self.previous_producer_id)

    def rotated(self, producer_id: int, timeout_ms: int, wall: int, *, expected: bool) -> "Transaction":
        """Another producer ID, because the epochs are used up."""
        last = self.epoch if expected else NO_EPOCH
        return replace(self._empty(timeout_ms, wall, epoch=0, last_epoch=last), producer_id=producer_id)

    def _empty(self, timeout_ms: int, wall: int, *, epoch: int, last_epoch: int) -> "Transaction":
        return replace(
            self,
            state=TransactionState.EMPTY,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started=NO_TIME,
            updated=wall,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )

    def with_partitions(self, added: Iterable[TopicPartition], wall: int, version: int) -> "Transaction":
        is_new = self.state is not TransactionState.ONGOING
        return replace(
            self,
            state=TransactionState.ONGOING,
            partitions=frozenset(added) if is_new else self.partitions.union(added),
            started=wall if is_new else self.started,
            updated=wall,
            version=version,
        )

    def ending(self, wall: int, version: int, *, commit: bool, next_producer_id: int = NO_PRODUCER_ID) -> "Transaction":
        """The decision: from here on there is no other outcome."""
        raised = version >= RAISES_EPOCH and self.epoch < LAST_EPOCH
        return replace(
            self,
            state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            epoch=self.epoch + 1 if raised else self.epoch,
            last_epoch=self.epoch if raised else self.last_epoch,
            started=self.started if self.state is TransactionState.ONGOING else wall,
            updated=wall,
            version=version,
            next_producer_id=next_producer_id,
        )

    def completed(self, wall: int) -> "Transaction":
        """Every partition has its marker."""
        is_rotated = self.next_producer_id != NO_PRODUCER_ID
        return replace(
            self,
            state=TransactionState.COMPLETE_COMMIT if self.is_commit else TransactionState.COMPLETE_ABORT,
            producer_id=self.next_producer_id if is_rotated else self.producer_id,
            epoch=0 if is_rotated else self.epoch,
            last_epoch=self.epoch if is_rotated else self.last_epoch,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated=wall,
        )
