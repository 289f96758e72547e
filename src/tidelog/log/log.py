"""The log of one partition replica: append, read, roll, truncate, delete, and what of it is durable.

Synchronous on `ports.Disk`; time is an argument. An append is checked as a whole, then written at once, then applied to
memory. If the write fails its bytes are truncated; if that fails, the log is `failed`: it only serves what it has.

    batch → validation → producers.check → roll? → epochs → one write → index, epochs, producers, log_end_offset

Segments, epochs, producers, snapshots and durability do not know each other: rolls, truncations and deletions change
them together, only here.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tidelog.config.topic import TopicConfig
from tidelog.effects import FileSlice
from tidelog.errors import ApiError, CorruptLog, DiskFailed, DiskFull, ErrorCode
from tidelog.log import names, reading, recovery, retention
from tidelog.log.checkpoints import LEADER_EPOCHS, PARTITION_METADATA
from tidelog.log.durability import Durability
from tidelog.log.epochs import EpochCache
from tidelog.log.inspection import is_inspected, kept
from tidelog.log.producers import Producers
from tidelog.log.reading import NOTHING_KNOWN, Known, TimedOffset
from tidelog.log.recovery import aborted, claim_folder
from tidelog.log.rolling import base_for, count_fitting, has_room, roll_age_ms
from tidelog.log.rules import AppendRules
from tidelog.log.segment import Segment, Warm
from tidelog.log.segments import Segments
from tidelog.log.transactions import Aborted
from tidelog.log.validation import (
    check_client_batch,
    check_follower_batches,
    check_own_batch,
    stamp_time,
    writable,
)
from tidelog.model import Time, TopicPartition
from tidelog.ports import Buffer, Disk, File
from tidelog.wire.records import CONTROL, LOG_APPEND_TIME, BatchHeader, batches, stamp, stamp_create_time

NO_TIMESTAMP = -1


class Appended(NamedTuple):
    """`last_offset` is inclusive; `log_append_time` is -1 unless the broker's clock was used. A `duplicate` has the
    offsets of its first append, and nothing was written."""

    first_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    duplicate: bool = False
    batches: int = 1
    bytes: int = 0


class Log:
    """`log_end_offset` is the offset of the next record. Every method that touches the disk may raise DiskFailed."""

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
        self.wrong_start = loaded.wrong_start
        self.failed = False
        """The disk failed in the middle of a change, or the log was deleted: it only serves what it has."""
        self.cleaned_to = 0
        """One past the last offset that compaction has processed; below it each key occurs once."""
        self.removals = 0
        """How often records were removed: compaction and a move to another folder start again when this changes."""
        self.replacing: Sequence[Segment] = ()
        """Compacted segments, in `.swap` files, that are about to replace their originals (`replace_segments`)."""
        active = segments.active
        self._must_roll = active.size > 0 and loaded.truncation_markers.is_above(active.base_offset)
        """The active segment was truncated: the next append goes to a new one (see `truncate_to`)."""
        self._disk = segments.disk
        self._files_to_remove: list[str] = []
        """Renamed files, until `delete_old_segments` returns them for removal."""
        self.durability = Durability(
            segments.disk, segments.folder, loaded.recovery_point, now, loaded.truncation_markers
        )
        self.durability.dirty, self.durability.epochs_synced = loaded.dirty, loaded.epochs_synced
        if loaded.repaired:
            self.durability.roll(loaded.repaired, due=False)
        if loaded.epochs_changed:
            self.durability.save_epochs(self.epochs)

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
        """The log in `folder`: created if it is missing, otherwise recovered. `clean`: the previous process stopped
        cleanly. `warm` limits the open files of all logs that share it. With `durable=False` the caller syncs the
        parent of a new folder. Raises CorruptLog if the folder is another topic's or a file contradicts its format."""
        created = not disk.exists(folder)
        segments = Segments(disk, folder, config.index_interval_bytes, warm if warm is not None else Warm(8))
        if created:
            disk.make_folder(folder, durable=durable)
            loaded = recovery.create(
                segments, topic_id, recovery_point=recovery_point, log_start_offset=log_start_offset, now=now
            )
        else:
            topic_id = claim_folder(disk, folder, topic_id, is_new=recovery_point == 0)
            loaded = recovery.load(
                segments, recovery_point=recovery_point, log_start_offset=log_start_offset, clean=clean, now=now
            )
        log = cls(segments, partition=partition, topic_id=topic_id, config=config, loaded=loaded, now=now)
        if created or not clean:
            log.durability.change(f"{folder}/{PARTITION_METADATA}")
            log.durability.change(f"{folder}/{LEADER_EPOCHS}")
        return log

    def __repr__(self) -> str:
        state = " failed" if self.failed else ""
        return f"<{type(self).__name__} {self.partition} [{self.log_start_offset}, {self.log_end_offset}){state}>"

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._config = config
        self.rules = rules = AppendRules.of(config)
        self.segments.set_index_interval(config.index_interval_bytes)
        self._roll_ms = roll_age_ms(config, rules, self.partition)

    @property
    def segment_bytes(self) -> int:
        """The size at which a segment is full."""
        return self.rules.segment_bytes

    @property
    def recovery_point(self) -> int:
        return self.durability.recovery_point

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return self.segments.size

    # Appending.

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        now: Time,
        *,
        from_client: bool = True,
        transaction_version: int = 0,
        inspected: AppendRules | None = None,
    ) -> Appended:
        """Append one batch, stamped with offset and epoch in place if it is writable. Raises ApiError with Kafka's code
        before anything changes, and LargeBatch if it must be inspected by `rules` first, unless it was (`inspected`).
        `transaction_version` is that of the ended transaction, or of the client."""
        self._check_usable()
        rules = self.rules
        batch = check_client_batch(records, rules, now.wall) if from_client else check_own_batch(records, rules)
        if (rules.compacted or rules.compression is not None) and inspected != rules and is_inspected(batch, rules):
            records, batch = kept(records, batch, rules, from_client=from_client)
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
        data = writable(records)
        if rules.log_append_time:
            batch = stamp_time(data, batch, now.wall)
        elif batch.attributes & LOG_APPEND_TIME:
            stamp_create_time(data, batch)
        first_offset = self.log_end_offset
        last_offset = first_offset + batch.last_offset_delta
        stamp(data, 0, first_offset, leader_epoch)

        segment = self.segments.active
        if not has_room(segment, batch, last_offset, rules, self._roll_ms, now) or self._must_roll:
            self.roll(now)
            segment = self.segments.active
        # The epoch before its first record: the log never has a record of an epoch that it does not know (rule 6).
        if leader_epoch != self.epochs.latest:
            self.assign_epoch(leader_epoch, first_offset)
        self._write(segment, data)
        self._apply_written(segment, batch, first_offset, data)
        time = now.wall if rules.log_append_time else NO_TIMESTAMP
        return Appended(first_offset, last_offset, time, self.log_start_offset, duplicate=False, bytes=batch.length)

    def append_as_follower(self, records: Buffer, now: Time) -> Appended | None:
        """Append the whole batches of a fetch unchanged; None if there is none. Raises ApiError CORRUPT_MESSAGE if a
        checksum or the order of offsets is wrong; then nothing has changed."""
        self._check_usable()
        view = memoryview(records)
        found = list(batches(view))
        if not found:
            return None
        self._check_follows(view, found)
        rest: Sequence[BatchHeader] = found
        while rest:
            count = 0 if self._must_roll else count_fitting(self.segments.active, rest, self.rules, self._roll_ms, now)
            self._append_run(view, rest[:count])
            rest = rest[count:]
            if rest:
                self.roll(now, base_for(rest[0], self.log_end_offset))
        first_offset, last_offset = found[0].base_offset, found[-1].last_offset
        return Appended(
            first_offset, last_offset, NO_TIMESTAMP, self.log_start_offset, batches=len(found), bytes=found[-1].end
        )

    def _check_follows(self, view: memoryview, found: Sequence[BatchHeader]) -> None:
        """Offsets ascend from the log's end. A log without records may start inside a batch, if its start or its
        leader's is inside one: the whole batch is then appended. If that write fails, the log ends where it did."""
        expected = self.log_end_offset
        first = found[0]
        if first.base_offset < expected <= first.last_offset and expected == self.log_start_offset:
            self.truncate_fully_and_start_at(first.base_offset, log_start_offset=expected)
            expected = first.base_offset
        check_follower_batches(view, found, expected, self.partition)

    def _append_run(self, view: memoryview, run: Sequence[BatchHeader]) -> None:
        """Adjacent batches that fit the active segment, in one write."""
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
            self.epochs = epochs if epochs is not None else self.epochs  # nothing was appended
            raise
        for batch in run:
            self._apply_written(segment, batch, batch.base_offset, view)

    def _apply_written(self, segment: Segment, batch: BatchHeader, base_offset: int, data: Buffer) -> None:
        """The batch was written: it is now part of the log."""
        last_offset = base_offset + batch.last_offset_delta
        segment.note(batch.length, last_offset, batch.latest_timestamp)
        self.log_end_offset = last_offset + 1
        if batch.producer_id >= 0:
            marker = None
            if batch.attributes & CONTROL:
                marker = recovery.marker_of(memoryview(data)[batch.position : batch.end])
            ended = self.producers.apply(batch, base_offset, marker)
            if ended is not None and not ended.committed:
                segment.note_aborted(aborted(ended, self.producers))
        else:
            self.producers.end_offset = last_offset + 1
        self.durability.dirty = True

    def _write(self, segment: Segment, data: Buffer) -> None:
        """All bytes or none: a torn tail would be read as corrupt."""
        if self.durability.epochs_lag:
            self.durability.save_epochs(self.epochs)
        try:
            segment.write(data)
        except DiskFailed:
            with self._all_or_failed():
                segment.file.truncate(segment.size)
            raise

    # Epochs.

    def take_epochs(self, epochs: EpochCache) -> None:
        """Copy the epochs of the log that this is a copy of: compaction may have removed their first records."""
        if self.epochs != epochs:
            self.epochs = EpochCache(epochs)
            self.durability.save_epochs(self.epochs)

    def assign_epoch(self, epoch: int, start_offset: int) -> bool:
        """Store that `epoch` begins at `start_offset`, and write the checkpoint; returns whether that changed
        anything."""
        if not self.epochs.assign(epoch, start_offset):
            return False
        self._write_epochs()
        return True

    def _write_epochs(self) -> None:
        """If the disk is full, they are written before the next append."""
        with suppress(DiskFull):
            self.durability.save_epochs(self.epochs)

    # Rolling.

    def roll(self, now: Time, base_offset: int = 0) -> None:
        """Start a new segment at the end of the log, or at `base_offset` if that is later.

        After a truncation, and if there are no records, it starts where the records end: recovery takes a gap between
        two segments for a lost segment and drops everything behind it.
        """
        self._check_usable()
        old = self.segments.active
        base = max(self.log_end_offset if old.size and not self._must_roll else old.next_offset(), base_offset)
        if old.base_offset == base:
            self._must_roll = False
            return
        paths = old.write_indexes()
        self.producers.end_offset = base
        try:
            paths.append(self.snapshots.write(self.producers))
        finally:
            self.producers.end_offset = max(base, self.log_end_offset)
        try:
            self.segments.create(base, now.wall)
        except DiskFailed:
            # If its file is there, nothing may be appended to the old one.
            self.failed = self._disk.exists(self.segments.describe(base, 0, 0).path(names.LOG))
            raise
        self._must_roll = False
        old.deactivate()
        self.durability.roll(paths)

    def _maybe_roll(self, now: Time) -> bool:
        """Returns whether there was space to roll."""
        with suppress(DiskFull):
            self.roll(now)
            return True
        return False

    # Reading.

    def read(self, offset: int, max_bytes: int, limit: int, *, at_least_one: bool = False) -> FileSlice | None:
        """Whole batches from the one that contains `offset`, from one segment, at most `max_bytes` (the last may be
        incomplete) and none that reaches `limit`; None if there are none. With `at_least_one` the first is whole.
        Raises ApiError OFFSET_OUT_OF_RANGE outside [log_start_offset, log_end_offset], CORRUPT_MESSAGE for damage."""
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
        """The aborted transactions for the reader of `piece`, which `read` returned for this offset and limit."""
        return reading.aborted(self.segments, offset, reading.end_of(self.segments, offset, piece, limit))

    def bytes_between(self, offset: int, limit: int) -> int:
        """About how many bytes the batches in [offset, limit) have: exact near the end; never 0 if there are any."""
        return reading.bytes_between(self.segments, offset, limit, self.log_end_offset)

    def offset_for_timestamp(self, timestamp: int, limit: int, known: Known = NOTHING_KNOWN) -> TimedOffset | None:
        """The first record below `limit` whose timestamp (wall ms) is at least `timestamp`; None if there is none.
        Raises Unread if that takes long, unless what was found is `known`."""
        return reading.first_at(self.segments, timestamp, self.log_start_offset, limit, known)

    def max_timestamp_offset(self, known: Known = NOTHING_KNOWN) -> TimedOffset | None:
        """The record with the latest timestamp; None if no record has one. Raises Unread as well."""
        return reading.latest(self.segments, known)

    # Truncating and deleting.

    def truncate_to(self, offset: int) -> bool:
        """Drop every record at or above `offset`, and the batch that contains it; returns whether there were any. The
        caller then checkpoints the recovery point, which may have decreased.

        The next append goes to a new file: a power loss may restore the old tail, and must not restore it *behind* new
        records.
        """
        self._check_usable()
        if offset >= self.log_end_offset:
            if self.epochs.truncate_from_end(self.log_end_offset):
                self._write_epochs()
            return False
        if offset < self.segments.base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        with self._all_or_failed():
            self._cancel_replacement(offset)
            keep = self.segments.floor(offset) + 1
            if keep < len(self.segments):
                self._discard(self.segments.retire_from(keep))
                # Durable first: after a power loss these segments must not follow the one that is truncated below.
                self._disk.sync_folder(self.folder)
                self.segments.activate()
            end = self.segments.active.truncate(offset)
            self._begin_new_segment()
            self.durability.truncate(end)
            self.log_end_offset = end
            self.cleaned_to = min(self.cleaned_to, end)
            self.log_start_offset = min(self.log_start_offset, end)
            if self.epochs.truncate_from_end(end):
                self._write_epochs()
            self._truncate_producers(end)
        return True

    def _truncate_producers(self, end: int) -> None:
        """Restore the producers as of this offset."""
        self.snapshots.remove_outside(-1, end)
        self.producers = recovery.rebuild_producers(self.segments, self.snapshots, end)

    def _begin_new_segment(self) -> None:
        active = self.segments.active
        self._must_roll = active.size > 0
        if not self._must_roll:
            self._discard(self.segments.retire_from(len(self.segments) - 1))
            self.segments.create(active.base_offset, active.created)

    def truncate_fully_and_start_at(self, offset: int, *, log_start_offset: int | None = None) -> None:
        """Drop everything; the next batch has `offset`, maybe below `log_start_offset`, where the log then ends."""
        self._check_usable()
        start = offset if log_start_offset is None else log_start_offset
        with self._all_or_failed():
            self._cancel_replacement(0)
            created = self.segments.active.created
            self._discard(self.segments.retire_from(0))
            self.segments.create(offset, created)
            self.durability.truncate(offset)
            self.log_start_offset = self.log_end_offset = start
            self.epochs.clear()
            self._write_epochs()
            self.snapshots.remove(list(self.snapshots.offsets))
            self.producers = Producers(end_offset=start)

    def advance_start(self, offset: int) -> bool:
        """Records below `offset` are deleted; returns whether the start moved. Raises ApiError OFFSET_OUT_OF_RANGE."""
        if offset > self.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.partition}: offset {offset} is beyond the log's end")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        if self.epochs.truncate_from_start(offset):
            self._write_epochs()
        return True

    def delete_old_segments(self, now: Time, high_watermark: int) -> list[str]:
        """Remove segments by retention and by the log's start, never one that reaches beyond the high watermark.
        Returns the paths to remove after file.delete.delay.ms."""
        self._check_usable()
        count = retention.deletable(
            self.segments,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=high_watermark,
            now_wall=now.wall,
        )
        if count == len(self.segments) and not self._maybe_roll(now):
            count -= 1
        if count:
            with self._all_or_failed():
                self._cancel_replacement(self.cleaned_to)
                bases = [segment.base_offset for segment in list(self.segments)[:count]]
                self._discard(self.segments.retire_first(count))
                self.snapshots.remove(bases)
                self.advance_start(max(self.segments.base_offset, self.log_start_offset))
        to_remove, self._files_to_remove = self._files_to_remove, []
        return to_remove

    # Replacing, for compaction.

    def _cancel_replacement(self, cleaned_to: int) -> None:
        """Records are removed: replacing segments may contain them, and would restore them after a crash."""
        self.removals += 1
        self.cleaned_to = min(self.cleaned_to, cleaned_to)
        withdrawn = self.replacing
        for segment in withdrawn:
            segment.remove_files()
        self.replacing = ()
        if withdrawn or self.segments.take_names():
            self._disk.sync_folder(self.folder)

    def replace_segments(self, old: Sequence[Segment]) -> list[str]:
        """Replace the segments `old` with `replacing`; returns the paths to remove later."""
        with self._all_or_failed():
            new, self.replacing = self.replacing, ()
            renamed = self.segments.replace(old, new)
            self.durability.forget([path.removesuffix(names.DELETED) for path in renamed])
            bases = {segment.base_offset for segment in new}
            self.snapshots.remove([segment.base_offset for segment in old if segment.base_offset not in bases])
        return renamed

    def _discard(self, renamed: list[str]) -> None:
        self._files_to_remove += renamed
        self.durability.forget([path.removesuffix(".deleted") for path in renamed])

    # Durability.

    def flush_due(self, now: Time) -> bool:
        """Whether to sync what was appended: by flush.messages, by flush.ms, or because a segment was rolled."""
        rules = self.rules
        return self.durability.is_due(self.log_end_offset, rules.flush_messages, rules.flush_ms, now.mono)

    def unsynced(self) -> list[File]:
        """The files to sync, in this order, before calling `mark_synced` with the present log_end_offset."""
        durability = self.durability
        active = self.segments.active.file if durability.dirty else None
        return durability.collect(self.log_end_offset, active)

    def mark_synced(self, offset: int) -> bool:
        """The files returned when the log ended at `offset` were synced; returns whether the recovery point moved."""
        return self.durability.complete(offset, self.log_end_offset)

    def changed_in_place(self, segment: Segment) -> None:
        """Bytes of an old segment were repaired; they are synced with the next flush."""
        self.durability.change(segment.path(names.LOG))

    def close(self, *, clean: bool = True) -> None:
        """Close all files. `clean`: write indexes and a last snapshot, and sync; the files of a failed log are not
        touched."""
        if clean and not self.failed:
            self._close_clean()
        self.durability.close()
        self.segments.cool()

    def _close_clean(self) -> None:
        durability = self.durability
        active = self.segments.active
        has_snapshot = self.log_end_offset in self.snapshots.offsets
        # Recovery writes a snapshot, but no index of aborted transactions.
        is_written = active.size == 0 or (has_snapshot and not active.has_aborted)
        if is_written and durability.is_idle and durability.recovery_point == self.log_end_offset:
            return
        paths = active.write_indexes() if active.size else []
        if self.log_end_offset > self.log_start_offset:
            self.producers.end_offset = self.log_end_offset
            paths.append(self.snapshots.write(self.producers))
        durability.roll(paths)
        durability.change(f"{self.folder}/{LEADER_EPOCHS}")
        durability.sync_all(self.log_end_offset, active.file)

    def retire(self, name: str) -> str:
        """The log is deleted: close it and rename its folder (`….<mark>-delete`); returns the new path, to be removed
        later."""
        self.close(clean=False)
        self.failed = True
        target = f"{self.folder.rsplit('/', 1)[0]}/{name}"
        self._disk.rename(self.folder, target)
        return target

    # Failures and invariants.

    def _check_usable(self) -> None:
        if self.failed:
            log_folder = self.folder.rsplit("/", 1)[0]
            raise DiskFailed(log_folder, f"{self.partition}: the log is offline after a disk failure")

    @contextmanager
    def _all_or_failed(self) -> Iterator[None]:
        """For changes of several files: if one fails, the files contradict each other, and the log is offline."""
        try:
            yield
        except DiskFull as full:
            self.failed = True
            raise DiskFailed(full.folder, full.reason) from full
        except (DiskFailed, CorruptLog):
            self.failed = True
            raise

    def check_invariants(self) -> None:
        """Invariants after every call."""
        assert 0 <= self.log_start_offset <= self.log_end_offset, self
        assert 0 <= self.recovery_point <= self.log_end_offset, (self, self.recovery_point)
        assert self.segments.active is self.segments[-1], self
        assert self.segments.active.base_offset <= self.log_end_offset, self
        assert self.producers.end_offset == self.log_end_offset, (self, self.producers)
        bases = [segment.base_offset for segment in self.segments]
        assert bases == sorted(set(bases)), bases
        self.epochs.check_invariants()
