"""Verifying the batches in a range of a log file; runs on a thread.

The checksum covers everything except base offset, length and leader epoch. Offsets must follow each other, and epochs
must be those of the log's epoch cache. A fault found only by these is not `sure`: another replica decides. Offsets that
cannot be in the segment are surely wrong: a reader would continue far behind the end.
"""

from typing import NamedTuple

from tidelog.effects import Stretch
from tidelog.errors import ApiError
from tidelog.log.scan import SCAN_BYTES
from tidelog.model import NO_EPOCH
from tidelog.wire.records import HEADER_BYTES, BatchHeader, crc_holds, header

UNKNOWN = -1


class Fault(NamedTuple):
    """A damaged batch. `offset` is one that it contains, or should contain; `length` is 0 if not even the length is
    valid."""

    position: int
    offset: int
    length: int
    reason: str
    sure: bool = True


class Verdict(NamedTuple):
    """Everything in [the range's start, `end`) was verified."""

    end: int
    faults: tuple[Fault, ...]


def examine(stretch: Stretch) -> Verdict:
    """Verify every batch that begins in the range. Raises DiskFailed if the disk refuses."""
    faults: list[Fault] = []
    position, expected = stretch.start, stretch.expected
    pages = _Pages(stretch)
    while position < stretch.end:
        batch = pages.batch(position)
        offset = expected if expected != UNKNOWN else stretch.last
        if batch is None:
            faults.append(Fault(position, offset, 0, "there is no record batch"))
            break
        if not crc_holds(pages.chunk, batch):
            is_length_valid = (
                pages.batch(position + batch.length) is not None or position + batch.length == stretch.size
            )
            faults.append(Fault(position, offset, batch.length if is_length_valid else 0, "the checksum does not hold"))
            if not is_length_valid:
                break
            expected = UNKNOWN
        else:
            reason = _contradiction(batch, expected, stretch, is_first=position == stretch.start)
            if reason:
                faults.append(Fault(position, offset, batch.length, reason, sure=_is_elsewhere(batch, stretch)))
            expected = expected + batch.last_offset_delta + 1 if reason and expected >= 0 else batch.next_offset
        position += batch.length
    return Verdict(position, tuple(faults))


class _Pages:
    """The part of the file that is in memory: `chunk`, to which positions in headers refer."""

    def __init__(self, stretch: Stretch) -> None:
        self._file = stretch.file
        self._size = stretch.size
        self._origin = 0
        self.chunk: bytes | memoryview = b""

    def batch(self, position: int) -> BatchHeader | None:
        """The header of the batch at `position`, which is then completely in memory; None if there cannot be one."""
        if position + HEADER_BYTES > self._size:
            return None
        self._bring(position, HEADER_BYTES)
        try:
            batch = header(self.chunk, position - self._origin)
        except ApiError:
            return None
        if position + batch.length > self._size:
            return None
        if batch.end > len(self.chunk):
            self._bring(position, batch.length)
            batch = header(self.chunk)
        return batch

    def _bring(self, position: int, length: int) -> None:
        if self._origin <= position and position + length <= self._origin + len(self.chunk):
            return
        self.chunk = self._file.read(position, min(max(SCAN_BYTES, length), self._size - position))
        self._origin = position


def _is_elsewhere(batch: BatchHeader, stretch: Stretch) -> bool:
    """Whether the batch cannot be in this segment."""
    return batch.base_offset not in stretch.offsets or batch.last_offset not in stretch.offsets


def _contradiction(batch: BatchHeader, expected: int, stretch: Stretch, *, is_first: bool) -> str:
    """What is wrong with the fields that the checksum does not cover; empty if nothing is."""
    if _is_elsewhere(batch, stretch):
        return f"offsets {batch.base_offset} to {batch.last_offset}, which are not those of the segment"
    if batch.base_offset < expected or (expected >= 0 and batch.base_offset > expected and not stretch.gaps):
        return f"offset {batch.base_offset} where {expected} was due"
    if is_first and stretch.last >= 0 and batch.last_offset != stretch.last:
        return f"last offset {batch.last_offset} where the index says {stretch.last}"
    known = next((epoch for epoch, start in reversed(stretch.epochs) if start <= batch.base_offset), NO_EPOCH)
    if NO_EPOCH not in (known, batch.leader_epoch) and known != batch.leader_epoch:
        return f"leader epoch {batch.leader_epoch} where it was {known}"
    return ""
