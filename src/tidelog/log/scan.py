"""Walking the batches of a log file: by headers alone, or whole with their checksums."""

from collections.abc import Iterator

from tidelog.errors import ApiError, CorruptLog
from tidelog.ports import File
from tidelog.wire.records import HEADER_BYTES, BatchHeader, crc_holds, header

STEP_BYTES = 4096
"""What one read of a walk takes in: about what lies between two index entries."""

SCAN_BYTES = 1024 * 1024


def walk(file: File, start: int, end: int, *, step: int = STEP_BYTES) -> Iterator[BatchHeader]:
    """The headers of the batches in [start, end), without reading more of the records than comes along. Positions are
    the file's. Stops before a batch that is cut off by `end`; CorruptLog where no batch can be."""
    position = start
    while position + HEADER_BYTES <= end:
        chunk = file.read(position, min(max(step, HEADER_BYTES), end - position))
        origin = position
        if len(chunk) < HEADER_BYTES:
            return
        while position - origin + HEADER_BYTES <= len(chunk):
            batch = _header(file, chunk, position - origin)
            if position + batch.length > end:
                return
            yield batch._replace(position=position)
            position += batch.length


def whole_batches(file: File, end: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """(header, batch) of every batch from the start of the file whose bytes are whole and whose checksum holds; ends
    before the first that is not, so that what follows can be cut off."""
    position = 0
    chunk = b""
    origin = 0
    while position + HEADER_BYTES <= end:
        if position - origin + HEADER_BYTES > len(chunk):
            chunk, origin = file.read(position, min(SCAN_BYTES, end - position)), position
        try:
            batch = header(chunk, position - origin)
        except ApiError:
            return
        if position + batch.length > end:
            return
        if batch.end > len(chunk):
            chunk, origin = file.read(position, min(max(SCAN_BYTES, batch.length), end - position)), position
            batch = batch._replace(position=0)
        if batch.end > len(chunk) or not crc_holds(chunk, batch):
            return
        yield batch._replace(position=position), chunk[batch.position : batch.end]
        position += batch.length


def _header(file: File, chunk: bytes, position: int) -> BatchHeader:
    try:
        return header(chunk, position)
    except ApiError as error:
        raise CorruptLog(f"{file.path}: {error}") from None
