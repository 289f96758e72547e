"""Writing a recovered tail again, so that the next fsync really writes it.

After a failed fsync the operating system treats what it could not write as written: it is in the page cache, the next
fsync succeeds, and a power loss takes it. A life that ended uncleanly may have had such an fsync and left no sign of
it, so what recovery read above the recovery point is written again before it can count as durable. The bytes stay the
same, so a write that a crash interrupts damages nothing.
"""

from collections.abc import Iterable

from tidelog.log import names
from tidelog.log.checkpoints import LEADER_EPOCHS, OLD, PARTITION_METADATA
from tidelog.log.segments import Segments
from tidelog.ports import Disk

CHUNK_BYTES = 1 << 20


def write_again(segments: Segments, recovery_point: int) -> None:
    """Write the records above the recovery point, their aborted transactions, and the small files of the folder again.
    Recovery has just written the other indexes and the snapshot. Syncing is up to the next flush."""
    disk, folder = segments.disk, segments.folder
    for number in range(segments.floor(max(recovery_point, segments.base_offset)), len(segments)):
        segment = segments[number]
        at = segment.locate(recovery_point) if segment.size else None
        _write_file_again(disk, segment.path(names.LOG), segment.size if at is None else at.position)
        _write_file_again(disk, segment.path(names.TRANSACTION_INDEX))
        if not segment.is_active:
            segment.cool()
    for name in (LEADER_EPOCHS, LEADER_EPOCHS + OLD, PARTITION_METADATA):
        _write_file_again(disk, f"{folder}/{name}")


def cut_again(segments: Segments, truncations: Iterable[int]) -> list[str]:
    """Truncate the files that were truncated at these offsets again: what a failed fsync lost may also be the new end.
    Returns their paths, which must be synced before the recovery point moves. An interrupted change leaves a byte that
    the next recovery removes; it keeps the segments behind, because the next one begins where the records end."""
    found = dict.fromkeys(_truncated_at(segments, offset) for offset in truncations)
    cut = [segments[number] for number in found if number is not None]
    for segment in cut:
        file = segments.disk.open(segment.path(names.LOG))
        try:
            file.truncate(segment.size + 1)
            file.truncate(segment.size)
        finally:
            file.close()
    return [segment.path(names.LOG) for segment in cut]


def _truncated_at(segments: Segments, offset: int) -> int | None:
    """The number of the segment that was truncated at this offset; None if that removed whole segments only. What was
    appended then is in the next one, which begins where the records end: below the offset, if that was in a gap."""
    number = segments.floor(offset - 1)
    if number and number == segments.floor(offset):
        first = segments[number].batch_at(segments[number].base_offset)
        if first is None or first.base_offset >= offset:
            number -= 1
    is_last = number + 1 == len(segments)
    return number if is_last or segments[number + 1].base_offset == segments[number].next_offset() else None


def _write_file_again(disk: Disk, path: str, start: int = 0) -> None:
    if not disk.exists(path):
        return
    file = disk.open(path)
    try:
        for position in range(start, file.size(), CHUNK_BYTES):
            file.write(position, file.read(position, CHUNK_BYTES))
    finally:
        file.close()
