"""Another replica's bytes in the place of bad ones: to the byte, in place, or not at all."""

from tidelog.errors import ApiError
from tidelog.log.integrity.examination import Fault
from tidelog.log.integrity.soundness import believe
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.ports import Buffer
from tidelog.wire.records import HEADER_BYTES, BatchHeader, batches, check_crc, header


def splice(log: Log, segment: Segment, fault: Fault, records: Buffer) -> int | None:
    """Write as many of the whole batches as end where a good batch of the segment begins, or the segment ends; how
    many bytes, 0 where they were there already, None where they do not fit. DiskFailed where the disk refuses.

    A crash within the write leaves bytes that are still bad, and found again."""
    view = memoryview(records)
    end = _fitting(segment, fault, view)
    if end is None:
        return None
    start = fault.position
    is_new = segment.file.read(start, end) != view[:end]
    if is_new:
        segment.file.write(start, view[:end])
        log.changed_in_place(segment)
    believe(log, segment, start, start + end)
    return end if is_new else 0


def _fitting(segment: Segment, fault: Fault, records: memoryview) -> int | None:
    """How many of the bytes fit."""
    try:
        for batch in batches(records):
            check_crc(records, batch)
            if batch.position == 0 and not batch.base_offset <= fault.offset <= batch.last_offset:
                return None
            if _continues(segment, fault.position + batch.end, batch):
                return batch.end
    except ApiError:
        return None
    return None


def _continues(segment: Segment, position: int, before: BatchHeader) -> bool:
    """Whether a good batch that can follow `before` begins there."""
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
