"""Damaged bytes that were durable once: what may be read of a log, and how damage is repaired.

Bytes of a segment are verified against their checksums before they are read, outside the event loop; only bytes that
were written or verified recently are trusted. `read` is the entry point for reads, `examination.examine` runs on a
thread, `soundness.Soundness` has the results for a segment, and `splice` replaces damaged bytes with those of another
replica: in place, if they fit exactly, or not at all.
"""

from tidelog.effects import FileSlice, Stretch
from tidelog.errors import ApiError, ErrorCode
from tidelog.log import reading
from tidelog.log.examination import UNKNOWN, Fault, Verdict
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.ports import Buffer
from tidelog.wire.records import HEADER_BYTES, BatchHeader, batches, check_crc, header

AHEAD_BYTES = 4 * 1024 * 1024
"""The size of one verification, so that a sequential reader finds verified bytes."""


class Unsound(Exception):
    """A read that must not return the bytes on disk: `stretch` must be verified first, or `fault` was found."""

    def __init__(self, segment: Segment, stretch: Stretch | None = None, fault: Fault | None = None) -> None:
        super().__init__(f"{segment}: {fault or stretch}")
        self.segment = segment
        self.stretch = stretch
        self.fault = fault


def read(log: Log, offset: int, max_bytes: int, limit: int, *, at_least_one: bool) -> FileSlice | None:
    """As `Log.read`, limited to verified bytes. Raises Unsound if none of the bytes are verified."""
    check_readable(log, offset)
    try:
        piece = log.read(offset, max_bytes, limit, at_least_one=at_least_one)
    except ApiError as error:
        raise reason_of_failure(log, offset, error) from error
    if piece is not None:
        return sound_part(log, offset, piece)
    if offset < min(limit, log.log_end_offset) and reading.is_missing(log.segments, offset):
        _check_length(log, offset)
    return None


def _check_length(log: Log, offset: int) -> None:
    """No batch was found although the log continues: a damaged length may point to the end of the file. Raises Unsound
    unless all bytes up to there are verified: then the records were compacted."""
    doubt = reason_of_failure(log, offset, ApiError(ErrorCode.CORRUPT_MESSAGE))
    if isinstance(doubt, Unsound):
        raise doubt


def sound_part(log: Log, offset: int, piece: FileSlice) -> FileSlice:
    """The verified prefix of a piece that was read for this offset. Raises Unsound if it is empty."""
    active = log.segments.active
    if piece.position >= active.sound.trusted and offset >= active.base_offset:
        return piece
    segment = _segment_of(log, offset, piece)
    sound, end = segment.sound, piece.position + piece.length
    if end > sound.trusted:
        end = max(piece.position + 1, sound.trusted)
    way = segment.offsets.floor(offset)
    wall = sound.wall(way)
    if not sound.stretches.cover(way, min(end, wall)):
        raise _unexamined(log, segment, offset, end)
    misleading = sound.first_fault(way, piece.position)
    if misleading is not None and (wall < piece.position or not _begins_by(piece, offset)):
        raise Unsound(segment, fault=misleading)
    fault = sound.first_fault(piece.position, end)
    if fault is None:
        return piece
    if fault.position <= piece.position:
        raise Unsound(segment, fault=fault)
    return piece._replace(length=fault.position - piece.position)


def check_readable(log: Log, offset: int) -> None:
    """Raises Unsound if a batch before `offset`, on the way of a scan to it, has a damaged length."""
    if log.segments.faulty:
        segment = log.segments[log.segments.floor(offset)]
        fault = segment.sound.obstacle(offset)
        if fault is not None:
            raise Unsound(segment, fault=fault)


def reason_of_failure(log: Log, offset: int, error: ApiError) -> Exception:
    """The exception to raise instead of `error`, which ended a read: damage on the way to the offset must be
    verified."""
    if error.code != ErrorCode.CORRUPT_MESSAGE:
        return error
    segment = log.segments[log.segments.floor(offset)]
    way = segment.offsets.floor(offset)
    fault = segment.sound.first_fault(way, segment.size)
    if fault is not None:
        return Unsound(segment, fault=fault)
    is_known = segment.sound.stretches.cover(way, segment.size)
    return error if is_known else _unexamined(log, segment, offset, segment.size)


def record_verdict(log: Log, segment: Segment, stretch: Stretch, verdict: Verdict) -> None:
    """Store the result of a verification."""
    segment.sound.stretches.add(stretch.start, verdict.end)
    for fault in verdict.faults:
        segment.sound.faults[fault.position] = fault
        log.segments.faulty.add(segment.base_offset)


def mark_sound(log: Log, segment: Segment, start: int, end: int) -> None:
    """These bytes are valid, or were repaired."""
    sound = segment.sound
    sound.stretches.add(start, end)
    for position in [position for position in sound.faults if start <= position < end]:
        del sound.faults[position]
    if not sound.faults:
        log.segments.faulty.discard(segment.base_offset)


def _begins_by(piece: FileSlice, offset: int) -> bool:
    """Whether the piece begins at or below the offset: then no batch before it was skipped."""
    return header(piece.file.read(piece.position, HEADER_BYTES)).base_offset <= offset


def _segment_of(log: Log, offset: int, piece: FileSlice) -> Segment:
    """The segment of the piece; the segments before it, in which nothing was found, must be valid as well."""
    number = log.segments.floor(offset)
    while (segment := log.segments[number]).file is not piece.file:
        way = segment.offsets.floor(offset)
        fault = segment.sound.first_fault(way, segment.size)
        if fault is not None:
            raise Unsound(segment, fault=fault)
        if not segment.sound.stretches.cover(way, segment.size):
            raise _unexamined(log, segment, offset, segment.size)
        _check_end(log, number)
        number += 1
    return segment


def _check_end(log: Log, number: int) -> None:
    """Nothing was found in a segment to whose offsets the reader's belongs. Unless the log is compacted, its file lost
    its end: Unsound, but not surely, because the log may have been compacted once."""
    segment = log.segments[number]
    is_believed = segment.sound.stretches.cover(segment.size, segment.size + 1)
    if is_believed or "compact" in log.config.cleanup_policy:
        return
    end, due = segment.next_offset(), log.segments.end_of(number, log.log_end_offset)
    if end < due:
        reason = f"the records from offset {end} to {due - 1} are missing"
        raise Unsound(segment, fault=Fault(segment.size, end, 0, reason, sure=False))


def _unexamined(log: Log, segment: Segment, offset: int, end: int) -> Unsound:
    """Starts at the last index entry, where a batch is known to begin."""
    start = segment.offsets.floor(offset)
    last = segment.offsets.offset_from(start) if start else None
    stretch = Stretch(
        segment.file,
        start,
        min(max(end, start + AHEAD_BYTES), segment.size),
        segment.size,
        expected=segment.base_offset if not start else UNKNOWN,
        last=UNKNOWN if last is None else last,
        offsets=range(segment.base_offset, _end_of(log, segment)),
        gaps="compact" in log.config.cleanup_policy,
        epochs=tuple((entry.epoch, entry.start_offset) for entry in log.epochs),
    )
    return Unsound(segment, stretch)


def splice(log: Log, segment: Segment, fault: Fault, records: Buffer) -> int | None:
    """Write as many of the whole batches as end at a valid batch of the segment, or at its end; returns the number of
    bytes, 0 if they were there already, None if they do not fit. Raises DiskFailed if the disk refuses.

    A crash during the write leaves bytes that are still damaged, and are found again.
    """
    view = memoryview(records)
    end = _fitting(log, segment, fault, view)
    if end is None:
        return None
    start = fault.position
    is_new = segment.file.read(start, end) != view[:end]
    if is_new:
        segment.file.write(start, view[:end])
        log.changed_in_place(segment)
        if start == segment.size:
            segment.size += end
            segment.cool()  # its indexes did not have these records
    mark_sound(log, segment, start, start + end)
    return end if is_new else 0


def _end_of(log: Log, segment: Segment) -> int:
    """One past the last offset that the segment may contain."""
    return log.segments.end_of(log.segments.floor(segment.base_offset), log.log_end_offset)


def _fitting(log: Log, segment: Segment, fault: Fault, records: memoryview) -> int | None:
    """The number of bytes that fit."""
    is_at_end = fault.position == segment.size
    try:
        for batch in batches(records):
            check_crc(records, batch)
            if batch.position == 0 and not batch.base_offset <= fault.offset <= batch.last_offset:
                return None
            if is_at_end and batch.next_offset == _end_of(log, segment):
                return batch.end
            if not is_at_end and _continues(segment, fault.position + batch.end, batch):
                return batch.end
    except ApiError:
        return None
    return None


def _continues(segment: Segment, position: int, before: BatchHeader) -> bool:
    """Whether a valid batch that can follow `before` begins there."""
    if position >= segment.size:
        return position == segment.size
    try:
        start = segment.file.read(position, HEADER_BYTES)
        length = header(start).length
        batch = header(whole := segment.file.read(position, length))
        check_crc(whole, batch)
    except ApiError:
        return False
    return batch.base_offset >= before.next_offset
