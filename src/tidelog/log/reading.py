"""Reads: the bytes of a fetch, found by positions alone without parsing records, and offsets by timestamp
(ListOffsets)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tidelog.effects import FileSlice
from tidelog.errors import ApiError, CorruptLog, ErrorCode
from tidelog.log.index import BatchPosition
from tidelog.log.inspection import LargeBatch, small_payload
from tidelog.log.scan import walk
from tidelog.log.segment import Segment
from tidelog.log.segments import Segments
from tidelog.log.transactions import Aborted
from tidelog.ports import Buffer
from tidelog.wire.records import BatchHeader, check_crc, header, payload_of, skimmed


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
    """The first batch that ends at or after `offset`; compaction may have removed all such batches of its segment."""
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
    """At most `max_bytes`, without an incomplete batch at the end if the boundaries are known."""
    boundary = segment.tail.boundary(position + max_bytes) if segment.tail else None
    return boundary - position if boundary is not None and boundary > position else max_bytes


def end_of(segments: Segments, offset: int, piece: FileSlice, limit: int) -> int:
    """An offset above every record of the piece, which was read from `offset`; not much higher than necessary."""
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


class TimedOffset(NamedTuple):
    """The timestamp (wall ms) and offset of a record, and its leader epoch."""

    timestamp: int
    offset: int
    leader_epoch: int


class Unread(Exception):
    """The answer is in a batch that must not be looked into on the event loop: `look_up` finds it off the loop."""

    def __init__(self, batch: BatchHeader, data: Buffer, timestamp: int, start: int) -> None:
        super().__init__(f"the batch at offset {batch.base_offset}")
        self.batch = batch
        self.arguments = (data, timestamp, start)


Known = Mapping[BatchHeader, TimedOffset | None]
"""What `look_up` found in batches that were `Unread`."""
NOTHING_KNOWN: Known = MappingProxyType({})


def first_at(segments: Segments, timestamp: int, start: int, limit: int, known: Known) -> TimedOffset | None:
    """The first record in [start, limit) whose timestamp is at least `timestamp`. Raises ApiError CORRUPT_MESSAGE if
    the file is damaged there, and Unread for a batch that is not `known`."""
    try:
        found = _first_at(segments, timestamp, start, known)
    except CorruptLog as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    return found if found is not None and found.offset < limit else None


def _first_at(segments: Segments, timestamp: int, start: int, known: Known) -> TimedOffset | None:
    for number in range(segments.floor(start), len(segments)):
        segment = segments[number]
        if segment.largest_timestamp[0] < timestamp:
            continue
        for batch in walk(segment.file, segment.place_of(timestamp, start), segment.size):
            if batch.max_timestamp < timestamp or batch.last_offset < start:
                continue
            found = _look_up(segment, batch, timestamp, start, known)
            if found is not None:
                return found
    return None


def latest(segments: Segments, known: Known) -> TimedOffset | None:
    """The first record with the latest timestamp of all. Raises as `first_at`."""
    try:
        return _latest(segments, known)
    except CorruptLog as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def _latest(segments: Segments, known: Known) -> TimedOffset | None:
    segment = max(segments, key=lambda segment: segment.largest_timestamp[0])
    timestamp, last_offset = segment.largest_timestamp
    if timestamp < 0:
        return None
    at = segment.locate(last_offset)
    for batch in walk(segment.file, at.position if at else 0, segment.size):
        if batch.latest_timestamp == timestamp:
            if batch.is_log_append_time:  # all records have the same timestamp, and the last one counts
                return _last_of(batch)
            return _look_up(segment, batch, timestamp, batch.base_offset, known)
    return None


def _look_up(segment: Segment, batch: BatchHeader, timestamp: int, start: int, known: Known) -> TimedOffset | None:
    if batch in known:
        return known[batch]
    data = segment.file.read(batch.position, batch.length)
    check_crc(data, found := header(data))  # the answer depends on the timestamps of its records
    try:
        payload = small_payload(data, found)
    except LargeBatch:
        raise Unread(batch, data, timestamp, start) from None
    return _look_up_in(payload, batch, timestamp, start)


def look_up(data: Buffer, timestamp: int, start: int) -> TimedOffset | None:
    """The first record of a batch from `start` on whose timestamp is at least `timestamp`."""
    batch = header(data)
    return _look_up_in(payload_of(data, batch), batch, timestamp, start)


def _look_up_in(payload: bytes, batch: BatchHeader, timestamp: int, start: int) -> TimedOffset | None:
    """The header's largest timestamp is believed: if no record has it, the last record is taken to have it. So a log
    whose headers lie is not searched batch by batch."""
    for record in skimmed(payload, batch):
        if record.timestamp >= timestamp and record.offset >= start:
            return TimedOffset(record.timestamp, record.offset, batch.leader_epoch)
    return _last_of(batch) if batch.count and batch.base_offset >= start else None


def _last_of(batch: BatchHeader) -> TimedOffset:
    return TimedOffset(batch.max_timestamp, batch.last_offset, batch.leader_epoch)
