"""The segments that replace a group: written as Kafka's `.cleaned` files, then swapped, so that a crash or a power loss
at any point leaves the group or its replacement.

1. `.cleaned` → `.swap`, the last segment first; durable. Until the first segment is renamed, recovery undoes all of it;
   from then on it finishes it.
2. The old files → `.deleted`; durable.
3. `.swap` → their final names.

The log is in use between the steps. From 2 on it consists of the new segments, whatever their files are called. Before
records are removed from the log, the `.swap` files are removed (`Log._cancel_replacement`) or, from 2 on, step 3 is
done: recovery never finds a `.swap` file that is older than a change of the log.
"""

from collections.abc import Sequence
from contextlib import suppress

from tidelog.errors import DiskFailed
from tidelog.log import names
from tidelog.log.compaction.steps import Flush, Steps, Unneeded
from tidelog.log.compaction.survivors import Survivor
from tidelog.log.durability import FolderFile
from tidelog.log.index import MAX_RELATIVE_OFFSET
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.log.transactions import Aborted
from tidelog.ports import File
from tidelog.wire.records import BatchHeader

BUFFER_BYTES = 256 * 1024


class Rewritten:
    """Usually one segment; several if `segment.bytes` was reduced since the group was written."""

    def __init__(self, log: Log, base_offset: int) -> None:
        self._log = log
        self._created = log.segments[log.segments.floor(base_offset)].created
        self._buffer = bytearray()
        self._notes: list[tuple[int, int, int]] = []
        self._opened: list[File] = []
        self._end = base_offset
        self.segments: list[Segment] = []
        self._begin(base_offset)

    def __repr__(self) -> str:
        return f"<Rewritten {self.segments}>"

    def _begin(self, base_offset: int) -> None:
        segment = self._log.segments.describe(base_offset, 0, self._created)
        segment.suffix = names.CLEANED
        segment.remove_files()
        segment.disk.open(segment.path(names.LOG), create=True).close()
        segment.activate()
        self.segments.append(segment)

    def take(self, survivor: Survivor, batch: BatchHeader) -> None:
        """Append what remains of `batch`."""
        segment, length = self.segments[-1], len(survivor.data)
        is_full = segment.size + len(self._buffer) + length > self._log.segment_bytes
        is_far = batch.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        if (is_full and (segment.size or self._buffer)) or is_far:
            self._write()
            self._begin(self._base_for(batch))
        self._buffer += survivor.data
        self._notes.append((length, batch.last_offset, survivor.max_timestamp))
        self._end = batch.next_offset
        if len(self._buffer) >= BUFFER_BYTES:
            self._write()

    def _base_for(self, batch: BatchHeader) -> int:
        """The end of the previous segment, so that recovery does not take a gap between them for a lost segment."""
        return self._end if batch.last_offset - self._end <= MAX_RELATIVE_OFFSET else batch.base_offset

    def _write(self) -> None:
        segment = self.segments[-1]
        if self._buffer:
            segment.write(self._buffer)
        for note in self._notes:
            segment.note(*note)
        self._buffer = bytearray()
        self._notes = []

    def note_aborted(self, aborted: Aborted) -> None:
        """The last marker aborted this transaction, and records of it were there."""
        self.segments[-1].note_aborted(aborted)

    def finish(self) -> list[File]:
        """Everything is written; returns the files that must be durable before the group is replaced."""
        self._write()
        disk = self._log.segments.disk
        paths = [path for segment in self.segments for path in segment.write_indexes()]
        for segment in self.segments:
            segment.deactivate()
        self._opened = [disk.open(path) for path in paths]
        return [*self._opened, FolderFile(disk, self._log.folder)]

    def close(self) -> None:
        for file in self._opened:
            file.close()
        self._opened = []

    def discard(self) -> None:
        """The group stays as it is."""
        self.close()
        for segment in self.segments:
            segment.tail = None
            segment.cool()
            with suppress(DiskFailed):  # reported by the operation that needed the disk
                segment.remove_files()


def replace(log: Log, group: Sequence[Segment], rewritten: Sequence[Segment]) -> Steps[bool]:
    """Replace the group with `rewritten`; returns whether it did."""
    folder = FolderFile(log.segments.disk, log.folder)
    log.replacing = rewritten
    offer(rewritten)
    yield Flush([folder])
    if log.replacing is not rewritten or log.failed:
        return False
    old = log.replace_segments(group)
    yield Flush([folder])
    if not log.failed:
        log.segments.take_names()
        yield Flush([folder])
    yield Unneeded(old)
    return True


def offer(rewritten: Sequence[Segment]) -> None:
    """From the last segment to the first, so that recovery never finds the first one without the others."""
    for segment in reversed(rewritten):
        segment.rename(names.SWAP)
