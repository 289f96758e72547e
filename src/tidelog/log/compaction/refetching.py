"""A damaged batch that the other replicas have compacted: what they kept of it does not fit into its place.

So it is remembered, and the next pass writes it, or nothing, instead of the damaged bytes. Batches are never merged: of
one batch another replica has the whole, a shorter one with the same offsets, or nothing.
"""

from tidelog.errors import ApiError
from tidelog.log.examination import Fault
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.log.segments import Refetched
from tidelog.ports import Buffer
from tidelog.wire.records import HEADER_BYTES, BatchHeader, batches, check_crc, header


def refetch(log: Log, segment: Segment, fault: Fault, records: Buffer) -> bool:
    """Remember what `records`, read from another replica at the fault's offset, have in its place; returns whether they
    show that."""
    kept = _kept(segment, fault, memoryview(records)) if "compact" in log.config.cleanup_policy else None
    if kept is None:
        return False
    found = log.segments.refetched
    for key in [key for key, each in found.items() if each.removals != log.removals]:
        del found[key]
    found[segment, fault.position] = Refetched(log.removals, fault.length, kept)
    return True


def _kept(segment: Segment, fault: Fault, records: memoryview) -> bytes | None:
    if not fault.length or fault.offset < segment.base_offset:
        return None
    kept = b""
    try:
        after = _batch_at(segment, fault.position + fault.length)
        before = _end_before(segment, fault)
        for batch in batches(records):
            check_crc(records, batch)
            if batch.base_offset >= after.base_offset:
                return kept
            is_it = batch.base_offset <= fault.offset <= batch.last_offset if before is None else True
            if kept or not is_it or batch.base_offset < (before or 0) or batch.last_offset >= after.base_offset:
                return None
            kept = bytes(records[batch.position : batch.end])
    except ApiError:
        return None
    return None


def _batch_at(segment: Segment, position: int) -> BatchHeader:
    """The batch that begins there. ApiError if none does, or if it is damaged."""
    length = header(segment.file.read(position, HEADER_BYTES)).length
    data = segment.file.read(position, length)
    batch = header(data)
    check_crc(data, batch)
    return batch


def _end_before(segment: Segment, fault: Fault) -> int | None:
    """One past the last offset before the fault; None if the index entry before it points to the fault itself, whose
    offset is that of the entry then. ApiError if the batches before it do not lead there."""
    position, end = segment.offsets.floor(fault.offset), None
    if not position:
        end = segment.base_offset
    while position < fault.position:
        batch = _batch_at(segment, position)
        position, end = position + batch.length, batch.next_offset
    return end
