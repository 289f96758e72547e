"""One partition replica's log: append, read, roll, truncate, delete, and what of it is durable.

Synchronous on `ports.Disk`; time is an argument. An append is checked whole before anything changes, then one write,
then memory; where the write fails, what it left behind is cut off and the log is as it was, or, where even that fails,
the log is `failed` and refuses every further change.

    batch → validation → producers.check → roll? → epochs → one write → index, epochs, producers, log_end_offset
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.config.topic import TopicConfig
from tidelog.effects import FileSlice
from tidelog.errors import ApiError, CorruptLog, DiskFailed, ErrorCode
from tidelog.log import recovery
from tidelog.log.access import lookup, reading
from tidelog.log.access.lookup import TimedOffset
from tidelog.log.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
)
from tidelog.log.claim import claim
from tidelog.log.contents import Contents
from tidelog.log.epochs import EpochCache
from tidelog.log.index import MAX_RELATIVE_OFFSET
from tidelog.log.segment import Segment, Warm
from tidelog.log.segments import Segments
from tidelog.log.transactions import Aborted
from tidelog.log.validation import check_client_batch, check_own_batch, recompressed, stamp_time
from tidelog.model import Time, TopicPartition
from tidelog.ports import Buffer, Disk
from tidelog.wire.records import (
    CONTROL,
    LOG_APPEND_TIME,
    BatchHeader,
    batches,
    check_crc,
    header,
    stamp,
    stamp_create_time,
)

NO_TIMESTAMP = -1


class Appended(NamedTuple):
    """What an append did. `last_offset` is inclusive; `log_append_time` is -1 unless the broker's clock was used or the
    batch is a `duplicate`, for which the offsets are those of its first append and nothing was written."""

    first_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    duplicate: bool = False
    batches: int = 1
    bytes: int = 0


class Log(Contents):
    """What the layers above see: `open`, `append_as_leader`, `append_as_follower`, `read` and the look-ups, beside the
    changes that are defined in `Contents`. Every method that touches the disk may raise DiskFailed."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        partition: TopicPartition,
        topic_id: bytes,
        config: TopicConfig,
        *,
        recovery_point: int,
        log_start_offset: int,
        clean: bool,
        now: Time,
        warm: Warm | None = None,
        durable: bool = True,
    ) -> "Log":
        """The log in `folder`, created where it is missing, else recovered; `clean` says that the process before this
        one stopped cleanly. `warm` bounds the open files of all logs that share it. `durable=False` leaves it to the
        caller to sync the parent of a new folder, once for many. CorruptLog where the folder is of another topic or
        its files contradict their formats."""
        created = not disk.exists(folder)
        if created:
            disk.make_folder(folder, durable=durable)
        topic_id = claim(disk, folder, topic_id, is_new=recovery_point == 0)
        segments = Segments(disk, folder, config.index_interval_bytes, warm if warm is not None else Warm(8))
        loaded = recovery.load(
            segments, recovery_point=recovery_point, log_start_offset=log_start_offset, clean=clean, now=now
        )
        log = cls(segments, partition=partition, topic_id=topic_id, config=config, loaded=loaded, now=now)
        if created or not clean:
            log.durability.change(f"{folder}/{PARTITION_METADATA}")
            log.durability.change(f"{folder}/{LEADER_EPOCHS}")
        return log

    # What it is.

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return self.segments.size

    @property
    def last_epoch(self) -> int:
        """The latest leader epoch that the log knows; -1 without any."""
        return self.epochs.latest

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at `offset`; -1 where it is not known."""
        return self.epochs.epoch_at(offset)

    # Appending.

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        now: Time,
        *,
        from_client: bool = True,
        transaction_version: int = 0,
    ) -> Appended:
        """Append one batch at the end, stamped with offset and epoch: in the buffer itself where it is writable.
        ApiError with Kafka's code where the batch is refused; then nothing has changed. `transaction_version` is that
        of the transaction which a marker ends, or in which the client writes."""
        self._check_usable()
        rules = self._rules
        batch = check_client_batch(records, rules, now.wall) if from_client else check_own_batch(records, rules)
        if batch.producer_id >= 0:
            marker = recovery.marker_of(records) if batch.attributes & CONTROL else None
            if marker is not None:
                self.producers.check_marker(batch, marker, transaction_version)
                earlier = None
            else:
                earlier = self.producers.check(batch, from_client=from_client, transaction_version=transaction_version)
            if earlier is not None:
                return Appended(
                    earlier.first_offset, earlier.last_offset, earlier.timestamp, self.log_start_offset, duplicate=True
                )
        if rules.compression is not None and rules.compression != batch.compression and not batch.is_control:
            records = recompressed(records, batch, rules)
            batch = header(records)
        data = _writable(records)
        if rules.log_append_time:
            batch = stamp_time(data, batch, now.wall)
        elif batch.attributes & LOG_APPEND_TIME:
            stamp_create_time(data, batch)
        first_offset = self.log_end_offset
        last_offset = first_offset + batch.last_offset_delta
        stamp(data, 0, first_offset, leader_epoch)

        segment = self._room(batch.length, last_offset, batch.max_timestamp, now)
        if leader_epoch != self.epochs.latest:
            self.assign_epoch(leader_epoch, first_offset)
        self._write(segment, data)
        self._take_in(segment, batch, first_offset, data)
        time = now.wall if rules.log_append_time else NO_TIMESTAMP
        return Appended(first_offset, last_offset, time, self.log_start_offset, duplicate=False, bytes=batch.length)

    def take_epochs(self, epochs: EpochCache) -> None:
        """Know the epochs as the log does that this is a copy of: some began with records that compaction took, and
        some have none."""
        if self.epochs != epochs:
            self.epochs = EpochCache(epochs)
            self.durability.save_epochs(self.epochs)

    def append_as_follower(self, records: Buffer, now: Time) -> Appended | None:
        """Append the whole batches of a fetch as they are; None where there is none. An incomplete batch at the end is
        left out. ApiError CORRUPT_MESSAGE where a checksum or the order of offsets is wrong; then nothing has changed.
        """
        self._check_usable()
        view = memoryview(records)
        found = list(batches(view))
        if not found:
            return None
        self._check_follows(view, found)
        first, last = found[0], found[-1]
        rest: Sequence[BatchHeader] = found
        while rest:
            count = self._fitting(rest, now)
            self._append_run(view, rest[:count])
            rest = rest[count:]
            if rest:
                self.roll(now, self._base_for(rest[0]))
        return Appended(
            first.base_offset,
            last.last_offset,
            NO_TIMESTAMP,
            self.log_start_offset,
            batches=len(found),
            bytes=last.end,
        )

    def _base_for(self, batch: BatchHeader) -> int:
        """0, where the log ends, even if offsets are missing up to the batch: to recovery, a hole between two segments
        is one that was lost, and it would drop what follows."""
        is_far = batch.last_offset - self.log_end_offset > MAX_RELATIVE_OFFSET
        return batch.base_offset if is_far else 0

    def _check_follows(self, view: memoryview, found: Sequence[BatchHeader]) -> None:
        """Offsets ascend from the log's end. A log without records may begin inside a batch (its start, or its
        leader's, is not at a batch's first offset): the batch is then taken whole, in place of what is deleted. Where
        it cannot be written after all, the log ends where it did."""
        expected = self.log_end_offset
        first = found[0]
        if first.base_offset < expected <= first.last_offset and expected == self.log_start_offset:
            self.truncate_fully_and_start_at(first.base_offset, log_start_offset=expected)
            expected = first.base_offset
        for batch in found:
            if batch.base_offset < expected or batch.last_offset_delta < 0:
                raise ApiError(
                    ErrorCode.CORRUPT_MESSAGE, f"{self.partition}: offset {batch.base_offset} where {expected} was due"
                )
            check_crc(view, batch)
            expected = batch.base_offset + batch.last_offset_delta + 1

    def _append_run(self, view: memoryview, run: Sequence[BatchHeader]) -> None:
        """Batches that lie side by side and fit the active segment, in one write."""
        if not run:
            return
        segment = self.segments.active
        epochs = None
        for batch in run:
            if batch.leader_epoch != self.epochs.latest and batch.leader_epoch >= 0:
                epochs = epochs if epochs is not None else EpochCache(self.epochs)
                self.epochs.assign(batch.leader_epoch, batch.base_offset)
        try:
            if epochs is not None:
                self._write_epochs()
            self._write(segment, view[run[0].position : run[-1].end])
        except DiskFailed:
            self.epochs = epochs if epochs is not None else self.epochs
            raise
        for batch in run:
            self._take_in(segment, batch, batch.base_offset, view)

    def _room(self, length: int, last_offset: int, max_timestamp: int, now: Time) -> Segment:
        """The active segment, rolled first where the batch does not fit."""
        segment = self.segments.active
        rules = self._rules
        if (
            segment.has_room(length, last_offset, rules.segment_bytes, rules.segment_index_bytes)
            and not (segment.size and self._waited(segment, max_timestamp, now) > self._roll_ms)
            and not self._cut
        ):
            return segment
        self.roll(now)
        return self.segments.active

    def _fitting(self, found: Sequence[BatchHeader], now: Time) -> int:
        """How many of the batches fit the active segment. Empty, it takes at least one, if it can hold the offset: a
        follower must not refuse what its leader accepted."""
        if self._cut:
            return 0
        if self._fits(found, now):
            return len(found)
        count = bisect_left(range(len(found)), True, key=lambda last: not self._fits(found[: last + 1], now))
        active = self.segments.active
        if count == 0 and active.size == 0 and found[0].last_offset - active.base_offset <= MAX_RELATIVE_OFFSET:
            return 1
        return count

    def _fits(self, run: Sequence[BatchHeader], now: Time) -> bool:
        segment = self.segments.active
        rules = self._rules
        length = run[-1].end - run[0].position
        entries = min(len(run), length // max(1, segment.index_interval) + 1)
        if not segment.has_room(length, run[-1].last_offset, rules.segment_bytes, rules.segment_index_bytes, entries):
            return False
        newest = max(batch.max_timestamp for batch in run)
        return not segment.size or self._waited(segment, newest, now) <= self._roll_ms

    # Reading.

    def read(self, offset: int, max_bytes: int, limit: int, *, at_least_one: bool = False) -> FileSlice | None:
        """Whole batches from the one that holds `offset` on, out of one segment, at most `max_bytes` of them (the last
        may be cut off) and none that reaches `limit`; None where there are none. With `at_least_one` the first batch
        is whole, however large. ApiError OFFSET_OUT_OF_RANGE outside [log_start_offset, log_end_offset],
        CORRUPT_MESSAGE where the file is damaged there."""
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition}: offset {offset} is not within [{self.log_start_offset}, {end_offset}]",
            )
        if offset >= min(limit, end_offset):
            return None
        try:
            return reading.read(self.segments, offset, max_bytes, limit, end_offset, at_least_one=at_least_one)
        except CorruptLog as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

    def aborted(self, offset: int, piece: FileSlice, limit: int) -> list[Aborted]:
        """The aborted transactions that a reader of committed records must know of, to read `piece`, which `read` gave
        for this offset and limit."""
        return self.aborted_between(offset, reading.end_of(self.segments, offset, piece, limit))

    def aborted_between(self, offset: int, end: int) -> list[Aborted]:
        """The aborted transactions with records in [offset, end)."""
        return reading.aborted(self.segments, offset, end)

    def bytes_between(self, offset: int, limit: int) -> int:
        """About how many bytes of batches lie in [offset, limit): exact near the end; never 0 where there are any."""
        return reading.bytes_between(self.segments, offset, limit, self.log_end_offset)

    def offset_for_timestamp(self, timestamp: int, limit: int) -> TimedOffset | None:
        """The first record below `limit` whose timestamp (wall ms) is at least `timestamp`; None without one."""
        try:
            found = lookup.first_at(self.segments, timestamp, self.log_start_offset)
        except CorruptLog as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        return found if found is not None and found.offset < limit else None

    def max_timestamp_offset(self) -> TimedOffset | None:
        """The record with the latest timestamp; None where no record has one."""
        try:
            return lookup.latest(self.segments)
        except CorruptLog as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def _writable(records: Buffer) -> bytearray | memoryview:
    if isinstance(records, memoryview):
        return bytearray(records) if records.readonly else records
    return records if isinstance(records, bytearray) else bytearray(records)
