"""Which bytes of which file a fetch gets: decided from positions alone, without reading a record."""

from tidelog.effects import FileSlice
from tidelog.log.segment import Segment
from tidelog.log.segments import Segments
from tidelog.log.tail import BatchPosition
from tidelog.log.transactions import Aborted


def read(
    segments: Segments, offset: int, max_bytes: int, limit: int, log_end_offset: int, *, at_least_one: bool
) -> FileSlice | None:
    """As `Log.read`, for an offset below both the limit and the log's end."""
    number, segment, found = _first_batch(segments, offset)
    if found is None:
        return None
    end = segment.size
    if limit < segments.end_of(number, log_end_offset):
        stop = segment.locate(limit)
        end = stop.position if stop else end
    available = end - found.position
    if available <= 0:
        return None
    if found.length > max_bytes:
        return FileSlice(segment.file, found.position, found.length) if at_least_one else None
    length = available if available <= max_bytes else _whole(segment, found.position, max_bytes)
    return FileSlice(segment.file, found.position, length)


def is_missing(segments: Segments, offset: int) -> bool:
    """Whether no batch ends at or after the offset."""
    return _first_batch(segments, offset)[2] is None


def _first_batch(segments: Segments, offset: int) -> tuple[int, Segment, BatchPosition | None]:
    """The first batch that ends at or after `offset`; compaction may have left none in the segment it belongs to."""
    number = len(segments) - 1
    segment = segments.active
    if offset < segment.base_offset:
        number = segments.floor(offset)
        segment = segments[number]
    found = segment.locate(offset)
    while found is None and number + 1 < len(segments):
        number += 1
        segment = segments[number]
        found = segment.locate(offset)
    return number, segment, found


def _whole(segment: Segment, position: int, max_bytes: int) -> int:
    """At most `max_bytes`, without a part of a batch at the end where the boundaries are remembered."""
    boundary = segment.tail.boundary(position + max_bytes) if segment.tail else None
    return boundary - position if boundary is not None and boundary > position else max_bytes


def end_of(segments: Segments, offset: int, piece: FileSlice, limit: int) -> int:
    """An offset that no record of the piece, which was read from `offset` on, reaches; not much more than is needed."""
    number = segments.floor(offset)
    while number + 1 < len(segments) and segments[number].file is not piece.file:
        number += 1
    segment = segments[number]
    end = piece.position + piece.length
    beyond = segment.offsets.offset_from(end) if end < segment.size else None
    return min(limit, segments.end_of(number, limit) if beyond is None else beyond)


def aborted(segments: Segments, start: int, end: int) -> list[Aborted]:
    """The aborted transactions with records in [start, end), in the order of the transaction indexes."""
    found: list[Aborted] = []
    for number in range(segments.floor(start), len(segments)):
        segment = segments[number]
        if segment.has_aborted and segment.transactions.collect(start, end, found):
            break
    return found


def bytes_between(segments: Segments, offset: int, limit: int, log_end_offset: int) -> int:
    """As `Log.bytes_between`."""
    limit = min(limit, log_end_offset)
    if offset >= limit:
        return 0
    number = segments.floor(offset)
    segment = segments[number]
    total = -segment.estimate(offset)
    while limit > segments.end_of(number, log_end_offset):
        total += segment.size
        number += 1
        segment = segments[number]
    at_end = limit == segments.end_of(number, log_end_offset)
    return max(1, total + (segment.size if at_end else segment.estimate(limit)))
