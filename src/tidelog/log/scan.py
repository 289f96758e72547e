"""Scanning the batches of a log file: headers only, or whole batches with their checksums."""

from collections.abc import Iterator
from struct import Struct

from tidelog.errors import ApiError, CorruptLog
from tidelog.ports import File
from tidelog.wire.records import HEADER_BYTES, MAGIC, PREFIX_BYTES, BatchHeader, check_crc, header

STEP_BYTES = 4096
"""The size of one read of a scan: about the distance between two index entries."""

SCAN_BYTES = 1024 * 1024

_unpack_fields = Struct(">qi4xb6xi").unpack_from  # base offset, length, magic, last offset delta


def walk(file: File, start: int, end: int, *, step: int = STEP_BYTES, torn: bool = False) -> Iterator[BatchHeader]:
    """The headers of the batches in [start, end), reading few of the record bytes. Positions are those in the file.
    Raises CorruptLog at bytes that cannot be a batch, or if a batch would reach beyond `end`; a file that may be `torn`
    ends before such a batch."""
    position = start
    while position + HEADER_BYTES <= end:
        chunk = file.read(position, min(max(step, HEADER_BYTES), end - position))
        origin = position
        if len(chunk) < HEADER_BYTES:
            break
        while position - origin + HEADER_BYTES <= len(chunk):
            batch = _header(file, chunk, position - origin)
            if position + batch.length > end:
                break
            yield BatchHeader._make((*batch[:-1], position))
            position += batch.length
        else:
            continue
        break
    if position < end and not torn:
        raise _damaged(file, position)


def find(file: File, start: int, end: int, offset: int) -> tuple[int, int] | None:
    """(position, length) of the first batch in [start, end) that ends at or after `offset`. As `walk`, but reads less
    of each header: every fetch that is not near the end calls this. CorruptLog also if `start` is behind the batch with
    `offset`, or at or behind the end: an index that is right never leads there, and records would be skipped."""
    position = start
    while position + HEADER_BYTES <= end:
        chunk = file.read(position, min(STEP_BYTES, end - position))
        origin, last = position, position + len(chunk) - HEADER_BYTES
        if last < origin:
            break
        while position <= last:
            base_offset, length, magic, last_offset_delta = _unpack_fields(chunk, position - origin)
            length += PREFIX_BYTES
            if magic != MAGIC or length < HEADER_BYTES or position + length > end:
                raise _damaged(file, position)
            if base_offset + last_offset_delta >= offset:
                if position == start and start and base_offset > offset:
                    raise _damaged(file, position)
                return position, length
            position += length
    if position != end or position == start > 0:
        raise _damaged(file, position)
    return None


def whole_batches(file: File, end: int) -> Iterator[BatchHeader]:
    """The header of every batch from the start of the file that is whole and has a valid checksum; ends before the
    first that is not, so that the rest can be truncated. Positions are meaningless to the caller."""
    position = 0
    chunk = b""
    origin = 0
    while position + HEADER_BYTES <= end:
        if position - origin + HEADER_BYTES > len(chunk):
            chunk, origin = file.read(position, min(SCAN_BYTES, end - position)), position
        try:
            batch = header(chunk, position - origin)
            if batch.end > len(chunk):
                chunk, origin = file.read(position, min(max(SCAN_BYTES, batch.length), end - position)), position
                batch = header(chunk)
            check_crc(chunk, batch)
        except ApiError:
            return
        yield batch
        position += batch.length


def _header(file: File, chunk: bytes, position: int) -> BatchHeader:
    try:
        return header(chunk, position)
    except ApiError as error:
        raise CorruptLog(f"{file.path}: {error}") from None


def _damaged(file: File, position: int) -> CorruptLog:
    return CorruptLog(f"{file.path}: there is no record batch at byte {position}")
