"""Which records of a batch remain (Kafka's retention checks, KIP-534 for delete horizons).

A record remains if no newer one of its key is known. A tombstone is removed once its batch's delete horizon has passed.
The first pass that finds a tombstone, or a marker whose transaction has no records left, gives the batch its horizon,
which replaces the base timestamp. An empty batch remains if it is the last thing known about its producer.

Of transactions, the data of aborted ones is removed, and later the markers that ended them. A marker remains while a
record of its transaction was there in this pass: otherwise a reader could not tell how the transaction ended. A pass
that finds the marker alone gives it a delete horizon; a pass after the horizon removes it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import Any, NamedTuple

from tidelog.errors import CorruptLog
from tidelog.log.compaction.offset_map import OffsetMap
from tidelog.log.compaction.steps import Steps, Worked, called
from tidelog.log.inspection import INLINE_BYTES, LargeBatch, small_payload
from tidelog.log.producers import Producers
from tidelog.log.recovery import marker_of
from tidelog.log.transactions import Aborted
from tidelog.wire.record_format import outline
from tidelog.wire.records import (
    DELETE_HORIZON,
    NO_TIMESTAMP,
    BatchBuilder,
    BatchHeader,
    Compression,
    Marker,
    decoded,
    header,
    payload_of,
    rebuild,
)


class PassedTransactions:
    """The transactions of a part of the log; gets every batch of it, in order."""

    def __init__(self) -> None:
        self._coming: list[tuple[int, Aborted]] = []
        self._aborted: dict[int, Aborted] = {}
        self._seen: set[Aborted] = set()
        self._committed: set[int] = set()
        self._kept: list[Aborted] = []

    def __repr__(self) -> str:
        return f"<PassedTransactions {len(self._aborted)} aborted, {len(self._committed)} committed ones open>"

    def add(self, aborted: Iterable[Aborted]) -> None:
        """Transactions with records in the next part; one that spans several parts may be added again."""
        for entry in aborted:
            heappush(self._coming, (entry.first_offset, entry))

    def take_kept(self) -> list[Aborted]:
        """Aborted transactions with data that ended since the last call: they remain in the transaction index."""
        kept, self._kept = self._kept, []
        return kept

    def is_aborted(self, batch: BatchHeader) -> bool:
        """Whether this batch of records belongs to an aborted transaction."""
        self._begin(batch)
        if not batch.is_transactional:
            return False
        entry = self._aborted.get(batch.producer_id)
        if entry is not None:
            self._seen.add(entry)
            return True
        self._committed.add(batch.producer_id)
        return False

    def is_marker_alone(self, batch: BatchHeader, marker: Marker | None) -> bool:
        """Whether no record of the transaction that this control batch ended was found."""
        self._begin(batch)
        producer = batch.producer_id
        if marker is None:
            return False
        if marker.committed:
            alone = producer not in self._committed
            self._committed.discard(producer)
            return alone
        entry = self._aborted.pop(producer, None)
        if entry is None or entry not in self._seen:
            return True
        self._seen.discard(entry)
        self._kept.append(entry)
        return False

    def _begin(self, batch: BatchHeader) -> None:
        """Open the transactions that begin up to the end of this batch. Those that ended before it are over also where
        their markers are missing: the producer's next one may be committed."""
        before = self._aborted.get(batch.producer_id)
        if before is not None and before.last_offset < batch.base_offset:
            del self._aborted[batch.producer_id]
            self._seen.discard(before)
        while self._coming and self._coming[0][0] <= batch.last_offset:
            entry = heappop(self._coming)[1]
            if entry.last_offset >= batch.base_offset:
                self._aborted[entry.producer_id] = entry


RECORDS_PER_STEP = 250
"""The number of records that one step processes: half a millisecond."""


class Survivor(NamedTuple):
    """The bytes that replace a batch, and the timestamp for the indexes."""

    data: bytes | memoryview
    max_timestamp: int


class LastOfProducer(NamedTuple):
    """`offset` is the last offset of the producer's last data batch; -1 if only a marker of `epoch` is known."""

    offset: int
    epoch: int


def last_of_producers(producers: Producers) -> dict[int, LastOfProducer]:
    return {
        producer.producer_id: LastOfProducer(producer.last_offset if producer.batches else -1, producer.epoch)
        for producer in producers.values()
    }


@dataclass(slots=True)
class RetentionRules:
    """`wall` is now; a batch that gets its delete horizon now gets `wall + delete_retention_ms`."""

    newest: OffsetMap
    transactions: PassedTransactions
    lasts: Mapping[int, LastOfProducer]
    wall: int
    delete_retention_ms: int

    def survivor(self, data: memoryview, batch: BatchHeader) -> Steps[Survivor | None]:
        """What remains of the batch in `data`; None if nothing does."""
        horizon = batch.base_timestamp if batch.has_delete_horizon else None
        if batch.is_control and not batch.count:
            return self._unless_last(batch)  # a marker was here, and its transaction
        if batch.is_control:
            alone = self.transactions.is_marker_alone(batch, marker_of(data[batch.position : batch.end]))
            if alone and horizon is not None and horizon <= self.wall:
                return self._unless_last(batch)
            whole = Survivor(data[batch.position : batch.end], batch.max_timestamp)
            return (yield from self._with_horizon(whole, batch)) if alone and horizon is None else whole
        if self.transactions.is_aborted(batch):
            return self._unless_last(batch)
        return (yield from self._of_records(data, batch, horizon))

    def _of_records(self, data: memoryview, batch: BatchHeader, horizon: int | None) -> Steps[Survivor | None]:
        payload = yield from payload_in(data, batch)
        keep_tombstones = horizon is None or horizon > self.wall
        kept: list[bytes] = []
        latest, has_tombstones = NO_TIMESTAMP, False
        for some in outline(payload, batch.count, RECORDS_PER_STEP):
            staying = self.newest.staying(some.keys, some.deltas, batch.base_offset)
            if not keep_tombstones:
                known = self.newest.end - batch.base_offset
                staying = [n for n in staying if some.has_value(payload, n) or some.deltas[n] >= known]
            if staying:
                bounds = some.bounds
                kept += [payload[bounds[number] : bounds[number + 1]] for number in staying]
                latest = max(latest, batch.base_timestamp + max([some.times[number] for number in staying]))
                has_tombstones = has_tombstones or not all(some.has_value(payload, n) for n in staying)
            if len(some) == RECORDS_PER_STEP:
                yield Worked()
        if not kept:
            return self._unless_last(batch)
        if len(kept) == batch.count:
            survivor = Survivor(data[batch.position : batch.end], batch.max_timestamp)
        else:
            newest = batch.max_timestamp if batch.is_log_append_time else latest
            content = b"".join(kept)
            is_slow = _is_slow(batch, len(content))
            make = called if is_slow else _at_once
            survivor = Survivor((yield from make(rebuild, batch, content, len(kept), newest)), newest)
        if horizon is None and has_tombstones:
            return (yield from self._with_horizon(survivor, batch))
        return survivor

    def _unless_last(self, batch: BatchHeader) -> Survivor | None:
        """None, or the emptied batch if it is the last thing known about its producer."""
        last = self.lasts.get(batch.producer_id)
        if last is None:
            return None
        by_marker = batch.is_control and batch.producer_epoch == last.epoch
        if by_marker if last.offset < 0 else batch.last_offset == last.offset:
            return emptied(batch)
        return None

    def _with_horizon(self, survivor: Survivor, batch: BatchHeader) -> Steps[Survivor]:
        """The same records, with timestamps relative to the horizon."""
        builder = BatchBuilder()
        builder.base_timestamp = self.wall + self.delete_retention_ms
        kept = header(survivor.data)
        payload = yield from payload_in(survivor.data, kept)
        for number, record in enumerate(decoded(payload, kept), 1):
            builder.append(record, record.offset - batch.base_offset)
            if number % RECORDS_PER_STEP == 0:
                yield Worked()
        if builder.last_offset_delta > batch.last_offset_delta:
            raise CorruptLog(f"the batch at offset {batch.base_offset} holds more than its header says")
        builder.last_offset_delta = batch.last_offset_delta
        builder.max_timestamp = survivor.max_timestamp
        build = partial(
            builder.build,
            base_offset=batch.base_offset,
            leader_epoch=batch.leader_epoch,
            compression=batch.compression,
            attributes=(batch.attributes & ~batch.compression) | DELETE_HORIZON,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )
        make = called if _is_slow(batch, builder.size) else _at_once
        return Survivor((yield from make(build)), survivor.max_timestamp)


def payload_in(data: bytes | memoryview, batch: BatchHeader) -> Steps[bytes]:
    """The records of the batch in `data` as they are encoded."""
    if batch.compression == Compression.NONE:
        return payload_of(data, batch)
    try:
        return small_payload(data, batch)
    except LargeBatch:
        alone = bytes(data[batch.position : batch.end])
    payload: bytes = yield from called(payload_of, alone, header(alone))
    return payload


def _is_slow(batch: BatchHeader, size: int) -> bool:
    """Whether compressing so many bytes as the batch was takes long."""
    return batch.compression != Compression.NONE and size > INLINE_BYTES


def _at_once(function: Callable[..., Any], *arguments: Any) -> Steps[Any]:
    return function(*arguments)
    yield


def emptied(batch: BatchHeader) -> Survivor:
    """The batch without its records: it keeps its offsets and its producer's sequence."""
    return Survivor(rebuild(batch, b"", 0, batch.max_timestamp), NO_TIMESTAMP)
