"""One partition replica's log: append, read, roll, truncate, delete, and what of it is durable.

Synchronous on `ports.Disk`; time is an argument. An append is checked whole before anything changes, then one write,
then memory; where the write fails, what it left behind is cut off and the log is as it was, or, where even that fails,
the log is `failed` and refuses every further change.

    batch → validation → producers.check → roll? → epochs → one write → index, epochs, producers, log_end_offset
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from zlib import crc32

from tidelog.config.topic import TopicConfig
from tidelog.effects import FileSlice
from tidelog.errors import ApiError, DiskFailed, ErrorCode
from tidelog.log import lookup, reading, recovery, retention
from tidelog.log.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    format_epochs,
)
from tidelog.log.claim import claim
from tidelog.log.durability import Durability
from tidelog.log.lookup import TimedOffset
from tidelog.log.names import LOG
from tidelog.log.producers import Producers
from tidelog.log.segment import Segment, Warm
from tidelog.log.segments import Segments
from tidelog.log.validation import Rules, check_client_batch, check_own_batch, recompressed, stamp_time
from tidelog.model import Time, TopicPartition
from tidelog.ports import Buffer, Disk, File
from tidelog.wire.records import CONTROL, BatchHeader, batches, check_crc, header, stamp

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


class Log:
    """Offsets: log_start_offset ≤ recovery point or not, but always ≤ log_end_offset, the next record's offset.

    Every method that touches the disk may raise DiskFailed. `config` may be replaced at any time.
    """

    def __init__(
        self,
        segments: Segments,
        *,
        partition: TopicPartition,
        topic_id: bytes,
        config: TopicConfig,
        loaded: recovery.Loaded,
        now: Time,
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.folder = segments.folder
        self.segments = segments
        self.config = config
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.snapshots = loaded.snapshots
        self.failed = False
        self._cut = False
        self._disk = segments.disk
        self._doomed: list[str] = []
        self._durability = Durability(segments.disk, segments.folder, loaded.recovery_point, now)
        self._durability.dirty = loaded.dirty
        if loaded.repaired:
            self._durability.roll(loaded.repaired)
        if loaded.epochs_changed:
            self._write_epochs()

    def __repr__(self) -> str:
        return f"<Log {self.partition} [{self.log_start_offset}, {self.log_end_offset}){' failed' * self.failed}>"

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
    ) -> "Log":
        """The log in `folder`, created where it is missing, else recovered; `clean` says that the process before this
        one stopped cleanly. `warm` bounds the open files of all logs that share it. CorruptLog where the folder is of
        another topic or its files contradict their formats."""
        created = not disk.exists(folder)
        if created:
            disk.make_folder(folder)
        topic_id = claim(disk, folder, topic_id, is_new=recovery_point == 0)
        segments = Segments(disk, folder, config.index_interval_bytes, warm if warm is not None else Warm(8))
        loaded = recovery.load(
            segments, recovery_point=recovery_point, log_start_offset=log_start_offset, clean=clean, now=now
        )
        log = cls(segments, partition=partition, topic_id=topic_id, config=config, loaded=loaded, now=now)
        if created or not clean:
            log._durability.change(f"{folder}/{PARTITION_METADATA}")
            log._durability.change(f"{folder}/{LEADER_EPOCHS}")
        return log

    # What it is.

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._config = config
        self._rules = rules = Rules.of(config)
        self.segments.set_index_interval(config.index_interval_bytes)
        jitter = config.segment_jitter_ms
        self._roll_ms = rules.segment_ms - (crc32(str(self.partition).encode()) % jitter if jitter > 0 else 0)

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return self.segments.size

    @property
    def last_epoch(self) -> int:
        """The latest leader epoch that the log knows; -1 without any."""
        return self.epochs.latest

    @property
    def recovery_point(self) -> int:
        return self._durability.recovery_point

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at `offset`; -1 where it is not known."""
        return self.epochs.epoch_at(offset)

    # Appending.

    def append_as_leader(self, records: Buffer, leader_epoch: int, now: Time, *, from_client: bool = True) -> Appended:
        """Append one batch at the end, stamped with offset and epoch: in the buffer itself where it is writable.
        ApiError with Kafka's code where the batch is refused; then nothing has changed."""
        self._check_usable()
        rules = self._rules
        batch = check_client_batch(records, rules, now.wall) if from_client else check_own_batch(records, rules)
        if batch.producer_id >= 0:
            earlier = self.producers.check(batch, from_client=from_client)
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
        first_offset = self.log_end_offset
        last_offset = first_offset + batch.last_offset_delta
        stamp(data, 0, first_offset, leader_epoch)

        segment = self._room(batch.length, last_offset, batch.max_timestamp, now)
        if leader_epoch != self.epochs.latest:
            self.assign_epoch(leader_epoch, first_offset)
        self._write(segment, data)
        self._take_in(segment, batch, first_offset, data)
        return Appended(
            first_offset,
            last_offset,
            now.wall if rules.log_append_time else NO_TIMESTAMP,
            self.log_start_offset,
            bytes=batch.length,
        )

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
        if self._cut:
            self.roll(now)
        first, last = found[0], found[-1]
        start = 0
        for number, batch in enumerate(found):
            pending = batch.position - found[start].position
            if not self._fits(batch, number - start + 1, pending, now):
                self._append_run(view, found[start:number])
                self.roll(now, batch.base_offset)
                start = number
        self._append_run(view, found[start:])
        return Appended(
            first.base_offset,
            last.last_offset,
            NO_TIMESTAMP,
            self.log_start_offset,
            batches=len(found),
            bytes=last.end,
        )

    def _check_follows(self, view: memoryview, found: Sequence[BatchHeader]) -> None:
        """Offsets ascend from the log's end. A log that is empty may begin inside a batch (its leader's start is not
        at a batch's first offset): the batch is then taken whole."""
        expected = self.log_end_offset
        first = found[0]
        if first.base_offset < expected <= first.last_offset and expected == self.log_start_offset and not self.size:
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
        start = run[0].position
        segment = self.segments.active
        for batch in run:
            if batch.leader_epoch >= 0 and batch.leader_epoch != self.epochs.latest:
                self.assign_epoch(batch.leader_epoch, batch.base_offset)
        self._write(segment, view[start : run[-1].end])
        for batch in run:
            self._take_in(segment, batch, batch.base_offset, view)

    def _take_in(self, segment: Segment, batch: BatchHeader, base_offset: int, data: Buffer) -> None:
        """The batch was written: now it is part of the log."""
        last_offset = base_offset + batch.last_offset_delta
        segment.note(batch.length, last_offset, batch.max_timestamp)
        self.log_end_offset = last_offset + 1
        if batch.producer_id >= 0:
            marker = None
            if batch.attributes & CONTROL:
                marker = recovery.marker_of(memoryview(data)[batch.position : batch.end])
            self.producers.apply(batch, base_offset, marker)
        else:
            self.producers.end_offset = last_offset + 1
        self._durability.dirty = True

    def _write(self, segment: Segment, data: Buffer) -> None:
        """All bytes or none: a torn tail would be read as corrupt."""
        try:
            segment.write(data)
        except DiskFailed:
            try:
                segment.file.truncate(segment.size)
            except DiskFailed:
                self.failed = True
            raise

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

    def _fits(self, batch: BatchHeader, entries: int, pending: int, now: Time) -> bool:
        """Whether the batch can follow `pending` bytes that are about to be written to the active segment. An empty
        segment takes any batch whose offsets it can hold: a follower must not refuse what its leader accepted."""
        segment = self.segments.active
        rules = self._rules
        is_empty = not segment.size and not pending
        return segment.has_room(
            pending + batch.length,
            batch.last_offset,
            batch.length if is_empty else rules.segment_bytes,
            rules.segment_index_bytes,
            entries,
        ) and (is_empty or self._waited(segment, batch.max_timestamp, now) <= self._roll_ms)

    def _waited(self, segment: Segment, max_timestamp: int, now: Time) -> int:
        """Milliseconds since the segment's first batch, by the records' own clock where they have one."""
        first = segment.first_timestamp
        if first < 0 and segment.size:
            first = segment.roll_timestamp()
        return max_timestamp - first if first >= 0 and max_timestamp >= 0 else now.wall - segment.created

    def assign_epoch(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset` and write the checkpoint; whether that changed anything. A new
        leader does this before its first append."""
        if not self.epochs.assign(epoch, start_offset):
            return False
        self._write_epochs()
        return True

    # Rolling.

    def roll_due(self, now: Time) -> bool:
        """Whether the active segment is older than segment.ms."""
        active = self.segments.active
        first = active.roll_timestamp()
        return active.size > 0 and now.wall - (first if first >= 0 else active.created) > self._roll_ms

    def roll(self, now: Time, base_offset: int = 0) -> None:
        """Begin a new segment at the end of the log, or at `base_offset` if that is later."""
        self._check_usable()
        old = self.segments.active
        base = max(self.log_end_offset, base_offset)
        self._cut = False
        if old.base_offset == base:
            return
        paths = old.write_indexes()
        self.producers.end_offset = base
        paths.append(self.snapshots.write(self.producers))
        try:
            self.segments.create(base, now.wall)
        except DiskFailed:
            self.failed = self._disk.exists(self.segments.describe(base, 0, 0).path(LOG))  # not to be overtaken
            raise
        old.deactivate()
        self._durability.roll(paths)

    # Reading.

    def read(self, offset: int, max_bytes: int, limit: int, *, at_least_one: bool = False) -> FileSlice | None:
        """Whole batches from the one that holds `offset` on, out of one segment, at most `max_bytes` of them (the last
        may be cut off) and none that reaches `limit`; None where there are none. With `at_least_one` the first batch
        is whole, however large. ApiError OFFSET_OUT_OF_RANGE outside [log_start_offset, log_end_offset]."""
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.partition}: offset {offset} is not within [{self.log_start_offset}, {end_offset}]",
            )
        if offset >= min(limit, end_offset):
            return None
        return reading.read(self.segments, offset, max_bytes, limit, end_offset, at_least_one=at_least_one)

    def bytes_between(self, offset: int, limit: int) -> int:
        """About how many bytes of batches lie in [offset, limit): exact near the end; never 0 where there are any."""
        return reading.bytes_between(self.segments, offset, limit, self.log_end_offset)

    def offset_for_timestamp(self, timestamp: int, limit: int) -> TimedOffset | None:
        """The first record below `limit` whose timestamp (wall ms) is at least `timestamp`; None without one."""
        found = lookup.first_at(self.segments, timestamp, self.log_start_offset)
        return found if found is not None and found.offset < limit else None

    def max_timestamp_offset(self) -> TimedOffset | None:
        """The record with the latest timestamp; None where no record has one."""
        return lookup.latest(self.segments)

    # Truncating and deleting.

    def truncate_to(self, offset: int) -> bool:
        """Drop every record at or above `offset`, and the batch that holds it; whether there were any. The caller then
        checkpoints the recovery point, which may have gone back.

        What is appended next goes into a new file: a power loss may bring the old tail back, and must not be able to
        bring it back *behind* new records."""
        self._check_usable()
        if offset >= self.log_end_offset:
            if self.epochs.truncate_from_end(self.log_end_offset):
                self._write_epochs()
            return False
        if offset < self.segments.base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        with self._all_or_failed():
            keep = self.segments.floor(offset) + 1
            if keep < len(self.segments):
                self._discard(self.segments.retire_from(keep))
                self.segments.activate()
            end = self.segments.active.truncate(offset)
            self._begin_anew(end)
            self._durability.truncate(end)
            self.log_end_offset = end
            self.log_start_offset = min(self.log_start_offset, end)
            if self.epochs.truncate_from_end(end):
                self._write_epochs()
            self.snapshots.remove_outside(-1, end)
            self.producers = recovery.rebuild_producers(self.segments, self.snapshots, self.log_start_offset, end)
        return True

    def _begin_anew(self, end: int) -> None:
        active = self.segments.active
        self._cut = active.size > 0
        if not self._cut:
            self._discard(self.segments.retire_from(len(self.segments) - 1))
            self.segments.create(end, active.created)

    def truncate_fully_and_start_at(self, offset: int, *, log_start_offset: int | None = None) -> None:
        """Drop everything; the next record gets `offset`. `log_start_offset` where it is not the same."""
        self._check_usable()
        with self._all_or_failed():
            created = self.segments.active.created
            self._discard(self.segments.retire_from(0))
            self.segments.create(offset, created)
            self._durability.truncate(offset)
            self.log_end_offset = offset
            self.log_start_offset = offset if log_start_offset is None else log_start_offset
            self.epochs.clear()
            self._write_epochs()
            self.snapshots.remove(list(self.snapshots.offsets))
            self.producers = Producers(end_offset=offset)

    def advance_start(self, offset: int) -> bool:
        """Records below `offset` are gone (DeleteRecords, or the leader's start); whether the start moved. ApiError
        OFFSET_OUT_OF_RANGE above the log's end."""
        if offset > self.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.partition}: offset {offset} is beyond the log's end")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        if self.epochs.truncate_from_start(offset):
            self._write_epochs()
        return True

    def delete_old_segments(self, now: Time, high_watermark: int) -> list[str]:
        """Take segments out of the log by retention.ms, retention.bytes and the log's start, never one that reaches
        beyond the high watermark. The paths to remove after file.delete.delay.ms, truncated ones among them."""
        self._check_usable()
        count = retention.deletable(
            self.segments,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=high_watermark,
            now_wall=now.wall,
        )
        if count:
            with self._all_or_failed():
                if count == len(self.segments):
                    self.roll(now)
                bases = [segment.base_offset for segment in list(self.segments)[:count]]
                self._discard(self.segments.retire_first(count))
                self.snapshots.remove(bases)
                self.advance_start(max(self.segments.base_offset, self.log_start_offset))
        doomed, self._doomed = self._doomed, []
        return doomed

    def _discard(self, renamed: list[str]) -> None:
        self._doomed += renamed
        self._durability.forget([path.removesuffix(".deleted") for path in renamed])

    # Durability.

    def flush_due(self, now: Time) -> bool:
        """Whether what was appended is to be synced: by flush.messages, by flush.ms, or since a segment was rolled."""
        durability = self._durability
        durability.now = now.mono
        if durability.rolled:
            return True
        if not durability.dirty:
            return False
        rules = self._rules
        return (
            self.log_end_offset - durability.started >= rules.flush_messages
            or now.mono - durability.since >= rules.flush_ms
        )

    def unsynced(self) -> list[File]:
        """The files to sync, in this order, so that everything up to the present log_end_offset is durable. When that
        has happened, the caller says `mark_synced` with that offset; if it fails, the folder is offline."""
        durability = self._durability
        active = self.segments.active.file if durability.dirty else None
        return durability.collect(self.log_end_offset, active)

    def mark_synced(self, offset: int) -> bool:
        """The files given out when the log ended at `offset` were synced; whether the recovery point moved."""
        return self._durability.complete(offset, self.log_end_offset)

    def synced_to(self, offset: int) -> bool:
        """Whether every record below `offset` is durable."""
        return self._durability.recovery_point >= offset

    def close(self, *, clean: bool = True) -> None:
        """Let all files go. `clean`: write indexes and a last snapshot, and sync; a log that failed is left alone."""
        if clean and not self.failed:
            self._settle()
        self._durability.close()
        self.segments.cool()

    def _settle(self) -> None:
        durability = self._durability
        active = self.segments.active
        is_written = active.size == 0 or self.log_end_offset in self.snapshots.offsets
        if is_written and durability.is_idle and durability.recovery_point == self.log_end_offset:
            return
        paths = active.write_indexes() if active.size else []
        if self.log_end_offset > self.log_start_offset:
            self.producers.end_offset = self.log_end_offset
            paths.append(self.snapshots.write(self.producers))
        durability.roll(paths)
        durability.change(f"{self.folder}/{LEADER_EPOCHS}")
        for file in self.unsynced():
            file.sync()
        self.mark_synced(self.log_end_offset)

    def retire(self, name: str) -> str:
        """The log is deleted: close it and give its folder another name (`….<id>-delete`) beside the old one; the new
        path, to be removed later."""
        self.close(clean=False)
        self.failed = True
        target = f"{self.folder.rsplit('/', 1)[0]}/{name}"
        self._disk.rename(self.folder, target)
        return target

    # Inside.

    def _write_epochs(self) -> None:
        path = f"{self.folder}/{LEADER_EPOCHS}"
        self._disk.replace(path, format_epochs(self.epochs), durable=False)
        self._durability.change(path)

    def _check_usable(self) -> None:
        if self.failed:
            raise DiskFailed(
                self.folder.rsplit("/", 1)[0], f"{self.partition}: the log is offline after a disk failure"
            )

    @contextmanager
    def _all_or_failed(self) -> Iterator[None]:
        """Changes of several files: half of them is no state to go on from."""
        try:
            yield
        except DiskFailed:
            self.failed = True
            raise

    def check_invariants(self) -> None:
        """What must hold after every call."""
        assert 0 <= self.log_start_offset <= self.log_end_offset, self
        assert 0 <= self.recovery_point <= self.log_end_offset, (self, self.recovery_point)
        assert self.segments.active is self.segments[-1], self
        assert self.segments.active.base_offset <= self.log_end_offset, self
        assert self.producers.end_offset == self.log_end_offset, (self, self.producers)
        bases = [segment.base_offset for segment in self.segments]
        assert bases == sorted(set(bases)), bases
        self.epochs.check_invariants()


def _writable(records: Buffer) -> bytearray | memoryview:
    if isinstance(records, bytearray) or (isinstance(records, memoryview) and not records.readonly):
        return records
    return bytearray(records)
