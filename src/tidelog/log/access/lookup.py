"""Offsets by time: the first record at or after a timestamp, and the record with the latest one (ListOffsets)."""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.log.scan import walk
from tidelog.log.segment import Segment
from tidelog.log.segments import Segments
from tidelog.wire.records import BatchHeader, Record, records


class TimedOffset(NamedTuple):
    """A record's timestamp (wall ms) and offset, and the leader epoch it was written in."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at(segments: Segments, timestamp: int, start: int) -> TimedOffset | None:
    """The first record at or above offset `start` whose timestamp is at least `timestamp`."""
    for number in range(segments.floor(start), len(segments)):
        segment = segments[number]
        if segment.largest_timestamp[0] < timestamp:
            continue
        position = segment.offsets.floor(max(segment.times.floor(timestamp), start))
        for batch in walk(segment.file, position, segment.size):
            if batch.max_timestamp < timestamp or batch.last_offset < start:
                continue
            for record in _records(segment, batch):
                if record.timestamp >= timestamp and record.offset >= start:
                    return TimedOffset(record.timestamp, record.offset, batch.leader_epoch)
    return None


def latest(segments: Segments) -> TimedOffset | None:
    """The first record with the latest timestamp of all."""
    segment = max(segments, key=lambda segment: segment.largest_timestamp[0])
    timestamp, last_offset = segment.largest_timestamp
    if timestamp < 0:
        return None
    for batch in walk(segment.file, segment.offsets.floor(last_offset), segment.size):
        if batch.latest_timestamp == timestamp:
            return _latest_in(segment, batch)
    return None


def _latest_in(segment: Segment, batch: BatchHeader) -> TimedOffset:
    """Under LogAppendTime all records have the same, and the last one counts."""
    if not batch.is_log_append_time:
        for record in _records(segment, batch):
            if record.timestamp == batch.max_timestamp:
                return TimedOffset(record.timestamp, record.offset, batch.leader_epoch)
    return TimedOffset(batch.max_timestamp, batch.last_offset, batch.leader_epoch)


def _records(segment: Segment, batch: BatchHeader) -> Iterator[Record]:
    return records(segment.file.read(batch.position, batch.length))
