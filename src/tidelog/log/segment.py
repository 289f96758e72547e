"""One segment: a log file with the batches from a base offset on, its two indexes, and its aborted transactions.

The active segment is open and has its indexes in memory. Any other segment is *cold*: it opens its file and loads its
indexes when it is read, and `Warm` closes the least recently read ones, so that thousands of files take neither
descriptors nor memory. An index that is missing or invalid is rebuilt from the batch headers.
"""

from collections import OrderedDict
from contextlib import suppress

from tidelog.errors import CorruptLog, DiskFailed
from tidelog.log import names
from tidelog.log.index import (
    MAX_RELATIVE_OFFSET,
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    BatchPosition,
    OffsetIndex,
    Tail,
    TimeIndex,
)
from tidelog.log.scan import find, walk
from tidelog.log.soundness import Soundness
from tidelog.log.transactions import Aborted, TransactionIndex
from tidelog.ports import Buffer, Disk, File
from tidelog.wire.records import BatchHeader


class Warm:
    """The cold segments that are open at present: at most `limit`, with at most `index_bytes` of indexes (a single one
    may exceed that). The least recently read one is closed first."""

    def __init__(self, limit: int = 512, index_bytes: int = 16 * 1024 * 1024) -> None:
        self.limit = limit
        self.index_bytes = index_bytes
        self._held = 0
        self._segments: OrderedDict[Segment, int] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Warm {len(self._segments)} of {self.limit}, {self._held} B of indexes>"

    def __len__(self) -> int:
        return len(self._segments)

    def touch(self, segment: "Segment") -> None:
        """The segment was read: it is closed last."""
        held = segment.loaded_index_bytes
        self._held += held - self._segments.get(segment, 0)
        self._segments[segment] = held
        self._segments.move_to_end(segment)
        while len(self._segments) > self.limit or (self._held > self.index_bytes and len(self._segments) > 1):
            next(iter(self._segments)).cool()

    def discard(self, segment: "Segment") -> None:
        self._held -= self._segments.pop(segment, 0)


class Segment:
    """`size` is the size of the log file; `created` (wall ms) is when this process created or loaded the segment.
    `first_timestamp` is that of its first batch, used for rolling by time; -1 until it is known. `_own_indexes`: they
    were built from the records, not read from files. `has_aborted`: the transaction index may have entries; most
    segments never have any. `suffix` is appended to the file names during compaction."""

    __slots__ = (
        "_file", "_offsets", "_own_indexes", "_times", "_timestamp", "_transactions", "base_offset", "created", "disk",
        "first_timestamp", "folder", "has_aborted", "index_interval", "size", "sound", "suffix", "tail", "unindexed",
        "warm",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, folder: str, base_offset: int, *, size: int, created: int, index_interval: int, warm: Warm
    ) -> None:
        self.disk = disk
        self.folder = folder
        self.base_offset = base_offset
        self.size = size
        self.created = created
        self.index_interval = index_interval
        self.warm = warm
        self.suffix = ""
        self.sound = Soundness()
        self.first_timestamp = -1
        self.unindexed = 0
        self.tail: Tail | None = None
        self._file: File | None = None
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._transactions: TransactionIndex | None = None
        self._own_indexes = False
        self._timestamp: tuple[int, int] | None = None
        self.has_aborted = False

    def __repr__(self) -> str:
        return f"<Segment {self.path(names.LOG)} {self.size} B>"

    def path(self, kind: str) -> str:
        return f"{self.folder}/{names.name(self.base_offset, kind)}{self.suffix}"

    # Opening and closing.

    @property
    def is_active(self) -> bool:
        return self.tail is not None

    @property
    def file(self) -> File:
        """The log file, opened if necessary."""
        if self._file is None:
            try:
                self._file = self.disk.open(self.path(names.LOG))
            except FileNotFoundError:
                raise DiskFailed(self.folder.rsplit("/", 1)[0], f"{self.path(names.LOG)} is gone") from None
        if self.tail is None:
            self.warm.touch(self)
        return self._file

    @property
    def offsets(self) -> OffsetIndex:
        if self._offsets is None:
            self._load_indexes()
            assert self._offsets is not None
        return self._offsets

    @property
    def times(self) -> TimeIndex:
        if self._times is None:
            self._load_indexes()
            assert self._times is not None
        return self._times

    @property
    def transactions(self) -> TransactionIndex:
        """In memory while the segment is active, otherwise until it is closed."""
        if self._transactions is None:
            self._transactions = TransactionIndex(self._aborted_on_disk() if self.has_aborted else b"")
        return self._transactions

    def _aborted_on_disk(self) -> bytes:
        try:
            return self.disk.read(self.path(names.TRANSACTION_INDEX))
        except FileNotFoundError:
            return b""

    @property
    def loaded_index_bytes(self) -> int:
        indexes = (self._offsets, self._times, self._transactions)
        return sum(len(index.content) for index in indexes if index is not None)

    @property
    def index_bytes(self) -> int:
        """The size of its offset and time indexes on disk."""
        return len(self.offsets.content) + len(self.times.content)

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        """(the latest timestamp, the last offset of the first batch that has it); (-1, base offset) without any."""
        if self._timestamp is None:
            self._timestamp = self.times.last or (-1, self.base_offset)
        return self._timestamp

    def activate(self) -> None:
        """The segment is appended to from now on: its indexes stay in memory until it is rolled."""
        self.tail = Tail()
        self.sound = Soundness(self.size)
        self._timestamp = self.largest_timestamp
        last = self.offsets.last
        self.unindexed = self.size - (last[1] if last else 0)
        self._transactions = self.transactions  # loaded, and kept
        self.warm.discard(self)

    def deactivate(self) -> None:
        """The segment is not written any more."""
        self.tail = None
        self.cool()

    def cool(self) -> None:
        """Close the file and drop the indexes until they are needed again."""
        assert self.tail is None, self
        self.warm.discard(self)
        self.close_file()
        self.sound = Soundness()
        self._offsets = self._times = self._transactions = None

    def close_file(self) -> None:
        """Close the file of an idle segment; the next use opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # Appending.

    def write(self, data: Buffer) -> None:
        """Write whole batches behind the last one; they count once `note` was called for each."""
        (self._file or self.file).write(self.size, data)

    def note(self, length: int, last_offset: int, max_timestamp: int) -> None:
        """Apply the next batch that was written: its position, its index entries, its timestamp."""
        assert self._timestamp is not None, self
        if max_timestamp > self._timestamp[0]:
            self._timestamp = (max_timestamp, last_offset)
        position = self.size
        if position == 0:
            self.first_timestamp = max_timestamp
        if self.unindexed > self.index_interval:
            self.offsets.append(last_offset, position)
            self.times.maybe_append(*self._timestamp)
            self.unindexed = 0
        self.unindexed += length
        self.size = position + length
        if self.tail is not None:
            self.tail.add(last_offset, position)

    def note_aborted(self, aborted: Aborted) -> None:
        """A marker in this segment aborted a transaction, which may have begun in an earlier one."""
        self.transactions.append(aborted)
        self.has_aborted = True

    def has_room(self, length: int, last_offset: int, segment_bytes: int, index_bytes: int, entries: int = 1) -> bool:
        """Whether a batch fits by size, by the range of offsets, and by the indexes: each with `entries` more, and for
        the roll one more time entry."""
        offsets, times = self._offsets, self._times
        assert offsets is not None, self
        assert times is not None, self
        return (
            self.size + length <= segment_bytes
            and last_offset - self.base_offset <= MAX_RELATIVE_OFFSET
            and len(offsets.content) + entries * OFFSET_ENTRY_BYTES <= index_bytes
            and len(times.content) + (entries + 1) * TIME_ENTRY_BYTES <= index_bytes
        )

    def roll_timestamp(self) -> int:
        """The first batch's timestamp; -1 if the segment is empty."""
        if self.first_timestamp < 0 and self.size:
            with suppress(CorruptLog):
                self.first_timestamp = next(walk(self.file, 0, self.size)).max_timestamp
        return self.first_timestamp

    # Reading.

    def locate(self, offset: int) -> BatchPosition | None:
        """The first batch that ends at or after `offset`; None if this segment has none."""
        if self.tail is not None:
            found = self.tail.find(offset, self.size)
            if found is not None:
                return found
        try:
            at = find(self.file, self.offsets.floor(offset), self.size, offset)
        except CorruptLog:
            if self._own_indexes:
                raise
            self.rebuild_indexes()  # the index may be wrong
            at = find(self.file, self.offsets.floor(offset), self.size, offset)
        return BatchPosition(*at) if at else None

    def batch_at(self, offset: int) -> BatchHeader | None:
        """The header of that batch."""
        at = self.locate(offset)
        return next(walk(self.file, at.position, at.position + at.length)) if at else None

    def estimate(self, offset: int) -> int:
        """The approximate position of the batch with `offset`: exact near the end, otherwise at most one index entry
        off."""
        if self.tail is not None:
            found = self.tail.find(offset, self.size)
            if found is not None:
                return found.position
        return self.offsets.floor(offset)

    def place_of(self, timestamp: int, start: int) -> int:
        """A position such that no record from `start` on and before it has a timestamp of at least `timestamp`. Raises
        CorruptLog."""
        entry = self.times.floor(timestamp)
        if entry is not None and not self._own_indexes and not self._is_of_batch(entry):
            self.rebuild_indexes()
            entry = self.times.floor(timestamp)
        at = self.locate(max(start, self.base_offset if entry is None else entry[1]))
        return at.position if at else self.size

    def _is_of_batch(self, time_entry: tuple[int, int]) -> bool:
        """Whether this entry of the time index, which has no checksum, is that of a batch. Raises CorruptLog."""
        timestamp, offset = time_entry
        batch = self.batch_at(offset)
        return batch is not None and batch.base_offset <= offset and batch.latest_timestamp == timestamp

    def last_entries_hold(self) -> bool:
        """Whether the last entries of the indexes are those of batches: appending relies on them, and so does the
        deletion of old segments. Raises CorruptLog."""
        last = self.offsets.last
        if last is not None:
            batch = next(walk(self.file, last[1], self.size), None)
            if batch is None or batch.last_offset != last[0]:
                return False
        return self._is_time_index_whole()

    def follows(self, batch: BatchHeader, expected: int) -> bool:
        """Whether the batch can be in this segment, at `expected` or behind it: no checksum covers its base offset."""
        return expected <= batch.base_offset <= batch.last_offset <= self.base_offset + MAX_RELATIVE_OFFSET

    def check_follows(self, batch: BatchHeader, expected: int) -> None:
        """Raises CorruptLog if it cannot."""
        if not self.follows(batch, expected):
            raise CorruptLog(f"{self.path(names.LOG)}: offset {batch.base_offset} at byte {batch.position}")

    def next_offset(self) -> int:
        """One past the last offset. Also measures a file of unknown content: `size` becomes the size of its whole
        batches."""
        if not self.size:
            return self.base_offset
        last = self.offsets.last
        end, offset = last[1] if last else 0, self.base_offset
        for batch in walk(self.file, end, self.size, torn=True):
            self.check_follows(batch, offset)
            end, offset = batch.end, batch.next_offset
        self.size = end
        return offset

    # Indexes on disk.

    def write_indexes(self) -> list[str]:
        """Write the index files with the last timestamp; returns the paths of all files that must be synced before the
        segment is durable."""
        self.times.maybe_append(*self.largest_timestamp)
        self._rewrite(names.INDEX, self.offsets.content)
        self._rewrite(names.TIME_INDEX, self.times.content)
        return [self.path(kind) for kind in (names.LOG, names.INDEX, names.TIME_INDEX)] + self.write_transactions()

    def write_transactions(self) -> list[str]:
        """Write the transaction index; returns its path if it has entries. Without entries there is no file. An
        existing file is replaced atomically: it may be trusted already, and nothing would restore it."""
        if not self.has_aborted:
            return []
        content = self.transactions.content
        self.has_aborted = bool(content)
        if not content:
            self.disk.remove(self.path(names.TRANSACTION_INDEX))
            return []
        path, before = self.path(names.TRANSACTION_INDEX), self._aborted_on_disk()
        if not before:
            self._rewrite(names.TRANSACTION_INDEX, content)
        elif before != content:
            self.disk.replace(path, bytes(content))
        return [path]

    def _rewrite(self, kind: str, content: bytearray) -> None:
        path = self.path(kind)
        try:
            file = self.disk.open(path)
            file.truncate(0)
        except FileNotFoundError:
            file = self.disk.open(path, create=True)
        if content:
            file.write(0, content)
        file.close()

    def _load_indexes(self) -> None:
        offsets = OffsetIndex(self.base_offset, self._content(names.INDEX))
        times = TimeIndex(self.base_offset, self._content(names.TIME_INDEX))
        if not (offsets.is_sane(self.size) and times.is_sane()):
            self.rebuild_indexes()
            return
        self._offsets, self._times = offsets, times
        self._own_indexes = False
        with suppress(CorruptLog):  # reported when it is read
            if not self._is_time_index_whole():
                self.rebuild_indexes()
        if self.tail is None:
            self.warm.touch(self)

    def _is_time_index_whole(self) -> bool:
        """Whether its last entry is that of a batch: the segment is deleted by that. Raises CorruptLog."""
        latest = self.times.last
        if latest is not None:
            return self._is_of_batch(latest)
        return not self.size or next(walk(self.file, 0, self.size)).latest_timestamp < 0

    def _content(self, kind: str) -> bytes:
        try:
            return self.disk.read(self.path(kind)) if self.size else b""
        except FileNotFoundError:
            return b"?"  # not a valid index: it is rebuilt

    def clear_indexes(self) -> None:
        """Drop everything known about the content, before a scan that notes every batch again; `size` becomes 0."""
        self._offsets, self._times = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
        self._own_indexes = True
        self._timestamp = (-1, self.base_offset)
        self.first_timestamp = -1
        self.size = self.unindexed = 0

    def rebuild_indexes(self) -> None:
        """Rebuild the indexes from the batch headers. Raises CorruptLog if they are damaged: the indexes are then
        unchanged, or, if there were none, cover the headers before the damage."""
        file, size = self.file, self.size
        before = self._offsets, self._times, self._timestamp, self._own_indexes, self.unindexed
        # The tail has the positions of the last batches, and of all of these: none may be missing among them.
        tail, self.tail = self.tail, None
        self.clear_indexes()
        expected = self.base_offset
        try:
            for batch in walk(file, 0, size):
                self.check_follows(batch, expected)
                self.note(batch.length, batch.last_offset, batch.latest_timestamp)
                expected = batch.next_offset
            self.times.maybe_append(*self.largest_timestamp)
        except CorruptLog:
            if before[0] is not None:
                self._offsets, self._times, self._timestamp, self._own_indexes, self.unindexed = before
            raise
        finally:
            self.size, self.tail = size, tail

    # Truncating and removing.

    def truncate(self, offset: int) -> int:
        """Drop the batches that end at or after `offset`; returns the new end offset of the segment."""
        found = self.batch_at(offset)
        if found is None:
            return offset
        self.file.truncate(found.position)
        self.size = found.position
        self.sound.trusted = min(self.sound.trusted, self.size)
        self.offsets.truncate(offset)
        self.times.truncate(offset)
        self.transactions.truncate(offset)
        if self.tail is not None:
            self.tail.truncate(found.position)
        last = self.offsets.last
        self.unindexed = self.size - (last[1] if last else 0)
        self._measure_timestamp(last[1] if last else 0)
        if not self.size:
            self.first_timestamp = -1
        return min(offset, found.base_offset)

    def _measure_timestamp(self, start: int) -> None:
        """The largest timestamp is in the last time entry or in a batch behind the last index entry."""
        self._timestamp = self.times.last or (-1, self.base_offset)
        for batch in walk(self.file, start, self.size):
            if batch.max_timestamp > self._timestamp[0]:
                self._timestamp = (batch.max_timestamp, batch.base_offset + batch.last_offset_delta)

    def retire(self) -> list[str]:
        """Rename the segment's files to `.deleted`; returns the new paths, which may be removed later."""
        self.deactivate()
        return self.rename(self.suffix + names.DELETED)

    def remove_files(self) -> None:
        for kind in names.SEGMENT_FILES:
            self.disk.remove(self.path(kind))

    def rename(self, suffix: str) -> list[str]:
        """Give the files another suffix; returns their new paths."""
        renamed = []
        for kind in names.SEGMENT_FILES:
            path = self.path(kind)
            if self.disk.exists(path):
                renamed.append(f"{path.removesuffix(self.suffix)}{suffix}")
                self.disk.rename(path, renamed[-1])
        self.suffix = suffix
        self.cool()
        return renamed
