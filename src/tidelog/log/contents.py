"""What one log consists of, and the changes that touch several of its parts at once.

Segments, epochs, producers, snapshots and what of them is durable must tell one story: a roll, a truncation, a deletion
change all of them, here and nowhere else. A change that a disk refuses half-way leaves the log `failed`: it serves what
it has and refuses every further change.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from zlib import crc32

from tidelog.config.topic import TopicConfig
from tidelog.errors import ApiError, CorruptLog, DiskFailed, DiskFull, ErrorCode
from tidelog.log import names, recovery, retention
from tidelog.log.checkpoints import LEADER_EPOCHS
from tidelog.log.durability import Durability
from tidelog.log.producers import Producers
from tidelog.log.recovery import aborted
from tidelog.log.segment import Segment
from tidelog.log.segments import Segments
from tidelog.log.validation import Rules
from tidelog.model import Time, TopicPartition
from tidelog.ports import Buffer, File
from tidelog.wire.records import CONTROL, BatchHeader


class Contents:
    """The parts of a log. `log_start_offset` ≤ `log_end_offset`, the next record's offset; `config` may be replaced at
    any time. Every method that touches the disk may raise DiskFailed."""

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
        self.cleaned_to = 0
        """One past the last offset that compaction has seen; the log below holds each key once."""
        self.cuts = 0
        """How often records were taken out of the log: whoever rewrites a part of it begins anew."""
        self.replacing: Sequence[Segment] = ()
        """Segments whose `.swap` files stand beside those that they are to replace."""
        active = segments.active
        self._cut = active.size > 0 and loaded.marks.is_above(active.base_offset)
        self._disk = segments.disk
        self._doomed: list[str] = []
        self.durability = Durability(segments.disk, segments.folder, loaded.recovery_point, now, loaded.marks)
        self.durability.dirty, self.durability.epochs_synced = loaded.dirty, loaded.epochs_synced
        if loaded.repaired:
            self.durability.roll(loaded.repaired, due=False)
        if loaded.epochs_changed:
            self.durability.save_epochs(self.epochs)

    def __repr__(self) -> str:
        state = " failed" if self.failed else ""
        return f"<{type(self).__name__} {self.partition} [{self.log_start_offset}, {self.log_end_offset}){state}>"

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
        if rules.compacted:
            self._roll_ms = min(self._roll_ms, config.max_compaction_lag_ms)

    @property
    def segment_bytes(self) -> int:
        """The size at which a segment is full."""
        return self._rules.segment_bytes

    @property
    def recovery_point(self) -> int:
        return self.durability.recovery_point

    # Appending.

    def _take_in(self, segment: Segment, batch: BatchHeader, base_offset: int, data: Buffer) -> None:
        """The batch was written: now it is part of the log."""
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

    def roll(self, now: Time, base_offset: int = 0) -> None:
        """Begin a new segment at the end of the log, or at `base_offset` if that is later.

        Behind a cut, and without records, it begins where the records end, not the log: that may have been cut in a
        hole, and to recovery a hole between two segments is a segment that was lost, and what follows it goes."""
        self._check_usable()
        old = self.segments.active
        base = max(self.log_end_offset if old.size and not self._cut else old.next_offset(), base_offset)
        if old.base_offset == base:
            self._cut = False
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
            self.failed = self._disk.exists(self.segments.describe(base, 0, 0).path(names.LOG))  # not to be overtaken
            raise
        self._cut = False
        old.deactivate()
        self.durability.roll(paths)

    def _maybe_roll(self, now: Time) -> bool:
        """Whether there was room to."""
        with suppress(DiskFull):
            self.roll(now)
            return True
        return False

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
            self._interrupt(offset)
            keep = self.segments.floor(offset) + 1
            if keep < len(self.segments):
                self._discard(self.segments.retire_from(keep))
                self._disk.sync_folder(self.folder)  # a power loss must not keep them behind what is cut off below
                self.segments.activate()
            end = self.segments.active.truncate(offset)
            self._begin_anew()
            self.durability.truncate(end)
            self.log_end_offset = end
            self.cleaned_to = min(self.cleaned_to, end)
            self.log_start_offset = min(self.log_start_offset, end)
            if self.epochs.truncate_from_end(end):
                self._write_epochs()
            self._truncate_producers(end)
        return True

    def _truncate_producers(self, end: int) -> None:
        """They are as of offset `end` again."""
        self.snapshots.remove_outside(-1, end)
        self.producers = recovery.rebuild_producers(self.segments, self.snapshots, end)

    def _begin_anew(self) -> None:
        active = self.segments.active
        self._cut = active.size > 0
        if not self._cut:
            self._discard(self.segments.retire_from(len(self.segments) - 1))
            self.segments.create(active.base_offset, active.created)

    def truncate_fully_and_start_at(self, offset: int, *, log_start_offset: int | None = None) -> None:
        """Drop everything; the next batch has `offset`, maybe below `log_start_offset`, where the log then ends."""
        self._check_usable()
        start = offset if log_start_offset is None else log_start_offset
        with self._all_or_failed():
            self._interrupt(0)
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
        if count == len(self.segments) and not self._maybe_roll(now):
            count -= 1
        if count:
            with self._all_or_failed():
                self._interrupt(self.cleaned_to)
                bases = [segment.base_offset for segment in list(self.segments)[:count]]
                self._discard(self.segments.retire_first(count))
                self.snapshots.remove(bases)
                self.advance_start(max(self.segments.base_offset, self.log_start_offset))
        doomed, self._doomed = self._doomed, []
        return doomed

    # Replacing, for compaction.

    def _interrupt(self, cleaned_to: int) -> None:
        """Records go: what was to replace segments may hold them, and after a crash would bring them back."""
        self.cuts += 1
        self.cleaned_to = min(self.cleaned_to, cleaned_to)
        if self.replacing:
            self.withdraw()
            self._disk.sync_folder(self.folder)
        elif self.take_names():
            self._disk.sync_folder(self.folder)

    def withdraw(self) -> None:
        """The segments that were to be replaced stay: remove the files beside them."""
        for segment in self.replacing:
            for kind in names.SEGMENT_FILES:
                self._disk.remove(segment.path(kind))
        self.replacing = ()

    def replace_segments(self, old: Sequence[Segment]) -> list[str]:
        """Make `replacing` part of the log in the place of `old`; the paths to remove later."""
        with self._all_or_failed():
            new, self.replacing = self.replacing, ()
            renamed = self.segments.replace(old, new)
            self.durability.forget([path.removesuffix(names.DELETED) for path in renamed])
            bases = {segment.base_offset for segment in new}
            self.snapshots.remove([segment.base_offset for segment in old if segment.base_offset not in bases])
        return renamed

    def take_names(self) -> bool:
        """Let segments that replaced others have their own names; whether there were any to get one."""
        nameless = [segment for segment in self.segments if segment.suffix]
        for segment in nameless:
            segment.rename("")
        return bool(nameless)

    def _discard(self, renamed: list[str]) -> None:
        self._doomed += renamed
        self.durability.forget([path.removesuffix(".deleted") for path in renamed])

    # Durability.

    def flush_due(self, now: Time) -> bool:
        """Whether what was appended is to be synced: by flush.messages, by flush.ms, or since a segment was rolled."""
        rules = self._rules
        return self.durability.is_due(self.log_end_offset, rules.flush_messages, rules.flush_ms, now.mono)

    def unsynced(self) -> list[File]:
        """The files to sync, in this order, so that everything up to the present log_end_offset is durable. When that
        has happened, the caller says `mark_synced` with that offset; if it fails, the folder is offline."""
        durability = self.durability
        active = self.segments.active.file if durability.dirty else None
        return durability.collect(self.log_end_offset, active)

    def mark_synced(self, offset: int) -> bool:
        """The files given out when the log ended at `offset` were synced; whether the recovery point moved."""
        return self.durability.complete(offset, self.log_end_offset)

    def changed_in_place(self, segment: Segment) -> None:
        """Bytes of an old segment were mended; they are synced with the next flush."""
        self.durability.change(segment.path(names.LOG))

    def close(self, *, clean: bool = True) -> None:
        """Let all files go. `clean`: write indexes and a last snapshot, and sync; a log that failed is left alone."""
        if clean and not self.failed:
            self._settle()
        self.durability.close()
        self.segments.cool()

    def _settle(self) -> None:
        durability = self.durability
        active = self.segments.active
        has_snapshot = self.log_end_offset in self.snapshots.offsets
        is_written = active.size == 0 or (has_snapshot and not active.has_aborted)  # recovery writes only the former
        if is_written and durability.is_idle and durability.recovery_point == self.log_end_offset:
            return
        paths = active.write_indexes() if active.size else []
        if self.log_end_offset > self.log_start_offset:
            self.producers.end_offset = self.log_end_offset
            paths.append(self.snapshots.write(self.producers))
        durability.roll(paths)
        durability.change(f"{self.folder}/{LEADER_EPOCHS}")
        durability.settle(self.log_end_offset, active.file)

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
        """Where there is no room, before the next append."""
        with suppress(DiskFull):
            self.durability.save_epochs(self.epochs)

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
        except DiskFull as full:
            self.failed = True
            raise DiskFailed(full.folder, full.reason) from full
        except (DiskFailed, CorruptLog):
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
