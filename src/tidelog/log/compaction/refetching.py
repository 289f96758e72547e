"""A damaged batch that the other replicas have compacted: what they kept of it does not fit into its place.

So it is remembered, and the next pass writes it, or nothing, instead of the damaged bytes. Batches are never merged: of
one batch another replica has the whole, a shorter one with the same offsets, or nothing.

In doubt nothing is replaced, and the damage stays. Another batch in the same place, which this replica has removed,
must not come back: its tombstone may have expired. Nor may the records that a tombstone in the damaged batch deleted:
this replica must have compacted up to there, unless the batch is too young for that tombstone to have expired. A marker
is never replaced by nothing: the other replica has no records of its transaction any more, but this one may, and they
would belong to a transaction that never ends.
"""

from tidelog.errors import ApiError, ErrorCode
from tidelog.log.examination import Fault
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.log.segments import Refetched
from tidelog.ports import Buffer
from tidelog.wire.records import HEADER_BYTES, BatchHeader, batches, check_crc, header

MARKER_BYTES = 96
"""No batch of a marker is larger, not even one whose timestamp is relative to a delete horizon."""


def refetch(log: Log, segment: Segment, fault: Fault, records: Buffer, wall: int) -> bool:
    """Remember what `records`, read from another replica at the fault's offset, have in its place; returns whether they
    show that."""
    kept = _kept(log, segment, fault, memoryview(records), wall) if "compact" in log.config.cleanup_policy else None
    if kept is None:
        return False
    found = log.segments.refetched
    for key in [key for key, each in found.items() if each.removals != log.removals]:
        del found[key]
    found[segment, fault.position] = Refetched(log.removals, fault.length, kept)
    return True


def _kept(log: Log, segment: Segment, fault: Fault, records: memoryview, wall: int) -> bytes | None:
    """What the other replica has in the place of the batch; None if that is not sure."""
    if not fault.length or fault.offset < segment.base_offset:
        return None
    kept = b""
    try:
        damaged = header(segment.file.read(fault.position, HEADER_BYTES))
        after = _batch_at(segment, fault.position + fault.length)
        last = _last_before(segment, fault)
        before = segment.base_offset if last is None else last.next_offset
        if after.base_offset > log.cleaned_to and not _is_young(log, last, wall):
            return None
        for batch in batches(records):
            check_crc(records, batch)
            if batch.base_offset >= after.base_offset:
                return None if _is_empty(kept) and _may_be_marker(damaged) else kept
            is_it = (batch.base_offset, batch.last_offset) == (damaged.base_offset, damaged.last_offset)
            if kept or not is_it or batch.base_offset < before:
                return None
            kept = bytes(records[batch.position : batch.end])
    except ApiError:
        return None
    return None


def _is_young(log: Log, last: BatchHeader | None, wall: int) -> bool:
    """Whether no tombstone behind this batch can have expired: its records are not older than their timestamps, unless
    those are ahead of the clock."""
    ahead = log.config.message_timestamp_after_max_ms
    return last is not None and last.latest_timestamp - ahead > wall - log.config.delete_retention_ms


def _is_empty(kept: bytes) -> bool:
    return not kept or not header(kept).count


def _may_be_marker(damaged: BatchHeader) -> bool:
    """Whether the batch is a marker, or one whose control bit may be what was damaged."""
    is_small = damaged.count <= 1 and damaged.length <= MARKER_BYTES
    return damaged.is_control or not damaged.count or (damaged.is_transactional and is_small)


def _batch_at(segment: Segment, position: int) -> BatchHeader:
    """The batch that begins there. ApiError if none does, or if it is damaged."""
    length = header(segment.file.read(position, HEADER_BYTES)).length
    data = segment.file.read(position, length)
    batch = header(data)
    check_crc(data, batch)
    return batch


def _last_before(segment: Segment, fault: Fault) -> BatchHeader | None:
    """The batch before the fault; None if the segment begins with the fault. ApiError if the batches before it do not
    lead there."""
    position, last = segment.offsets.floor(fault.offset - 1), None
    while position < fault.position:
        last = _batch_at(segment, position)
        position += last.length
    if position != fault.position or (position and last is None):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE)
    return last
