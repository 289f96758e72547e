"""The state of a log's producers (KIP-98): epoch, last sequences, open transaction.

Pure: `check` validates a client's batch before it is written, `apply` applies a batch that was written or is replayed;
only `apply` changes state. The rules for a client's batch, as in Kafka 4.3.1:

- an epoch below the known one: INVALID_PRODUCER_EPOCH;
- a repetition of one of the last five batches of this epoch: a duplicate, answered as the first time;
- a new epoch must begin at sequence 0, the same epoch must continue where it stopped (sequences wrap at 2^31 - 1): else
  OUT_OF_ORDER_SEQUENCE_NUMBER;
- an unknown producer (expired, or its records are deleted) may begin at any sequence: UNKNOWN_PRODUCER_ID is not used
  any more;
- in a transaction of version 2 (KIP-890), which has an epoch of its own, it must begin at 0: else
  OUT_OF_ORDER_SEQUENCE_NUMBER. Otherwise the second batch could be appended before the first one, which could then
  never be appended.

The rules for a marker, which a transaction coordinator wrote (`check_marker`): a coordinator of an older epoch gets
TRANSACTION_COORDINATOR_FENCED. An older producer epoch gets INVALID_PRODUCER_EPOCH. So does the same epoch if each end
raises the epoch (transaction version 2, KIP-890), unless it repeats the marker of a transaction that has ended.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.records import (
    CONTROL,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    Marker,
)

KEPT_BATCHES = 5
"""The number of batches for which a retry is detected; clients have at most as many in flight."""

NO_TRANSACTION = -1
RAISES_EPOCH = 2
"""The transaction version from which every end of a transaction raises the producer's epoch."""
_LAST_EPOCH = 2**15 - 1


class AppendedBatch(NamedTuple):
    """A batch that a retry may repeat; offsets and sequences are inclusive."""

    base_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class EndedTransaction(NamedTuple):
    """A marker ended this producer's transaction; `last_offset` is the marker's offset."""

    producer_id: int
    first_offset: int
    last_offset: int
    committed: bool


class Producer:
    """One producer ID's state. `timestamp` is that of its last batch (wall ms), used for expiration."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "producer_id", "timestamp", "transaction_start")

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[AppendedBatch] = []
        self.timestamp = -1
        self.coordinator_epoch = -1
        self.transaction_start = NO_TRANSACTION

    def __repr__(self) -> str:
        return f"<Producer {self.producer_id} epoch {self.epoch} last sequence {self.last_sequence}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Producer) and all(getattr(self, n) == getattr(other, n) for n in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def enter(self, epoch: int) -> None:
        """Batches of another epoch are not retries of this one."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def duplicate_of(self, batch: BatchHeader) -> AppendedBatch | None:
        last = batch.last_sequence
        return next(
            (b for b in self.batches if b.base_sequence == batch.base_sequence and b.last_sequence == last), None
        )


class Producers:
    """The producers of one log, by ID. `end_offset`: every batch below it has been applied. `_open`: the first offsets
    of open transactions, ascending. `_ended`: transactions whose markers may be above the high watermark, ascending by
    marker."""

    __slots__ = ("_ended", "_guards", "_last_guard", "_open", "_producers", "end_offset")

    def __init__(self, producers: Iterable[Producer] = (), end_offset: int = 0) -> None:
        self._producers = {producer.producer_id: producer for producer in producers}
        self._open = {
            producer.producer_id: producer.transaction_start
            for producer in sorted(self._producers.values(), key=lambda producer: producer.transaction_start)
            if producer.transaction_start != NO_TRANSACTION
        }
        self._ended: deque[EndedTransaction] = deque()
        self._guards: dict[int, int] = {}
        self._last_guard = 0
        self.end_offset = end_offset

    def __repr__(self) -> str:
        return f"<Producers {len(self)} to offset {self.end_offset}>"

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def values(self) -> Iterable[Producer]:
        return self._producers.values()

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return next(iter(self._open.values())) if self._open else None

    def last_stable_offset(self, high_watermark: int) -> int:
        """LSO: every transaction below it has ended, with a marker below the high watermark."""
        ended = self._ended
        while ended and ended[0].last_offset < high_watermark:
            ended.popleft()
        if not ended and not self._open:
            return high_watermark
        first = min((transaction.first_offset for transaction in ended), default=high_watermark)
        return min(first, high_watermark, next(iter(self._open.values()), high_watermark))

    # Verification (KIP-890): no batch begins a transaction here that is unknown to its coordinator.

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has an open transaction here in this epoch: it was verified when it began."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.transaction_start != NO_TRANSACTION and producer.epoch == epoch

    def guard(self, producer_id: int) -> int:
        """A request to the coordinator starts: a marker that arrives before its response makes that response
        invalid."""
        self._last_guard += 1
        self._guards[producer_id] = self._last_guard
        return self._last_guard

    def holds(self, producer_id: int, guard: int) -> bool:
        """The request is done; returns whether its response is valid."""
        return self._guards.pop(producer_id, 0) == guard

    def check(
        self, batch: BatchHeader, *, from_client: bool = True, transaction_version: int = 0
    ) -> AppendedBatch | None:
        """None if the batch may be appended, the earlier append if it is a duplicate. Raises ApiError by the rules
        above. Batches of coordinators have no sequence numbers; only their epoch is checked. `transaction_version` is
        that of the client."""
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            must_begin = from_client and transaction_version >= RAISES_EPOCH and batch.attributes & TRANSACTIONAL
            if must_begin and batch.base_sequence != 0:
                raise _out_of_order(batch, Producer(batch.producer_id))
            return None
        if batch.producer_epoch == producer.epoch:
            if not from_client or _follows(producer.last_sequence, batch.base_sequence):
                _check_transaction(producer, batch)
                return None
            duplicate = producer.duplicate_of(batch)
            if duplicate is not None:
                return duplicate
            raise _out_of_order(batch, producer)
        if batch.producer_epoch < producer.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {batch.producer_epoch} of producer {batch.producer_id} is below {producer.epoch}",
            )
        if from_client and batch.base_sequence != 0 and producer.epoch != NO_PRODUCER_EPOCH:
            raise _out_of_order(batch, producer)
        _check_transaction(producer, batch)
        return None

    def check_marker(self, batch: BatchHeader, marker: Marker, transaction_version: int) -> None:
        """Raises ApiError if the marker is invalid by the rules above."""
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            return
        if not _may_end(producer, batch.producer_epoch, raised=transaction_version >= RAISES_EPOCH):
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of epoch {batch.producer_epoch} of producer {batch.producer_id}, which has {producer.epoch}",
            )
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {marker.coordinator_epoch} is below {producer.coordinator_epoch}",
            )

    def apply(self, batch: BatchHeader, base_offset: int, marker: Marker | None = None) -> EndedTransaction | None:
        """Apply a batch at `base_offset`; `marker` is that of a control batch. Replicated batches are not checked."""
        last_offset = base_offset + batch.last_offset_delta
        self.end_offset = last_offset + 1
        producer_id = batch.producer_id
        if producer_id < 0:
            return None
        control = batch.attributes & CONTROL
        if control and marker is None:
            return None  # the transaction was compacted, or this is not a marker
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id)
        if producer.epoch != batch.producer_epoch:
            producer.enter(batch.producer_epoch)
        if marker is not None and control:
            return self._end_transaction(producer, marker, base_offset, batch.max_timestamp)
        kept = producer.batches
        if len(kept) == KEPT_BATCHES:
            del kept[0]
        kept.append(
            AppendedBatch(batch.base_sequence, batch.last_sequence, base_offset, last_offset, batch.max_timestamp)
        )
        producer.timestamp = batch.max_timestamp
        if batch.attributes & TRANSACTIONAL and producer.transaction_start == NO_TRANSACTION:
            producer.transaction_start = self._open[producer_id] = base_offset
        return None

    def _end_transaction(
        self, producer: Producer, marker: Marker, offset: int, timestamp: int
    ) -> EndedTransaction | None:
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.timestamp = timestamp
        start, producer.transaction_start = producer.transaction_start, NO_TRANSACTION
        self._open.pop(producer.producer_id, None)
        self._guards.pop(producer.producer_id, None)
        if start == NO_TRANSACTION:
            return None
        ended = EndedTransaction(producer.producer_id, start, offset, marker.committed)
        self._ended.append(ended)
        return ended

    def expire(self, now_wall: int, expiration_ms: int) -> int:
        """Remove producers without an open transaction whose last batch is at least `expiration_ms` old
        (`producer.id.expiration.ms`); returns their number."""
        gone = [
            producer.producer_id
            for producer in self._producers.values()
            if producer.transaction_start == NO_TRANSACTION and now_wall - producer.timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self._producers[producer_id]
        return len(gone)


def _may_end(producer: Producer, epoch: int, *, raised: bool) -> bool:
    if epoch == producer.epoch and raised:
        return producer.transaction_start == NO_TRANSACTION or epoch == _LAST_EPOCH
    return epoch >= producer.epoch


def _follows(last_sequence: int, next_sequence: int) -> bool:
    """After NO_SEQUENCE (only a marker of this epoch is known) comes 0."""
    return next_sequence == (last_sequence + 1) & MAX_SEQUENCE


def _check_transaction(producer: Producer, batch: BatchHeader) -> None:
    if producer.transaction_start != NO_TRANSACTION and not batch.attributes & (TRANSACTIONAL | CONTROL):
        raise ApiError(
            ErrorCode.INVALID_TXN_STATE, f"producer {batch.producer_id} has an open transaction in this partition"
        )


def _out_of_order(batch: BatchHeader, producer: Producer) -> ApiError:
    return ApiError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"sequence {batch.base_sequence} of producer {batch.producer_id} (epoch {batch.producer_epoch}) "
        f"does not follow {producer.last_sequence} (epoch {producer.epoch})",
    )
