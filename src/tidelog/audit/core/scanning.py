"""One pass over the batches of a piece of a log: checksums, order, epochs, and a digest of each chunk of offsets.

Python executes a dozen steps per batch and none per record. A chunk's digest is a sum over its batches, so pieces that
split a chunk at different positions on two replicas add up to the same digest.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from tidelog.audit.core import finding
from tidelog.checksums import crc32c
from tidelog.ports import Buffer
from tidelog.wire.records import ATTRIBUTES_POSITION, HEADER_BYTES, MAGIC, PREFIX_BYTES

ROW = Struct(">qiibIhi")
"""Base offset, length, leader epoch, magic, checksum, attributes, last offset delta: the compared part of a batch."""
ROW_BYTES = ROW.size
LEAST_LENGTH = HEADER_BYTES - PREFIX_BYTES
NO_END = 2**63 - 1
UNKNOWN = -1
DIGEST_MASK = 2**64 - 1
MOST_FAULTS = 100
"""The maximum per piece; the rest is counted."""

OnBatch = Callable[[memoryview, int, int], None]
"""Called with a batch's bytes, its base offset, and the offset after it."""


class Chunk(NamedTuple):
    """The batches that begin in one range of offsets."""

    batches: int
    bytes: int
    digest: int


class Fault(NamedTuple):
    """A fault within one replica, at offsets [start, end)."""

    kind: str
    start: int
    end: int
    sentence: str


@dataclass(slots=True)
class Scan:
    """The result of a piece. `first` and `end` are UNKNOWN without a batch; `epochs`: epoch and first offset."""

    first: int = UNKNOWN
    end: int = UNKNOWN
    batches: int = 0
    bytes: int = 0
    chunks: dict[int, Chunk] = field(default_factory=dict)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    uncounted: int = 0
    missing: list[tuple[tuple[int, int], str]] = field(default_factory=list)
    """Missing acknowledged records as (offset, checksum of the value), and what is there instead."""
    trouble: str = ""
    """Why the piece, or the rest of it, could not be read."""

    def add(self, fault: Fault) -> None:
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(fault)
        else:
            self.uncounted += 1


class NotABatch(Exception):
    """Bytes that are not a valid batch, `used` bytes into the data that was fed."""

    def __init__(self, used: int) -> None:
        super().__init__(used)
        self.used = used


class Scanner:
    """Feed it the bytes of a piece in order. Batches that begin outside [start, end) are skipped. `rows` collects the
    headers of the chunks that are its keys, `batch_positions` the (position, base, end) of each batch."""

    def __init__(
        self,
        width: int,
        *,
        start: int = 0,
        end: int = NO_END,
        gaps_allowed: bool = False,
        on_batch: OnBatch | None = None,
        rows: dict[int, bytearray] | None = None,
        batch_positions: "array[int] | None" = None,
    ) -> None:
        self.scan = Scan()
        self.expected = UNKNOWN
        self.passed = start
        """The offset after the last batch, inside the range or not."""
        self._width = width
        self._start = start
        self._end = end
        self._gaps_allowed = gaps_allowed
        self._on_batch = on_batch
        self._rows = rows
        self._batch_positions = batch_positions
        self._epoch = UNKNOWN

    def feed(self, data: Buffer, position: int = 0) -> int:
        """Scan the whole batches at the beginning of `data`; return their size in bytes. `position` is the position of
        `data` in its file. Raises NotABatch for invalid bytes."""
        view = memoryview(data)
        unpack, width, start, limit = ROW.unpack_from, self._width, self._start, self._end
        size, at, scan = len(view), 0, self.scan
        number = low = high = batches = total = digest = 0
        expected = self.expected
        while at + HEADER_BYTES <= size:
            base, length, epoch, magic, crc, _, delta = unpack(view, at)
            if magic != MAGIC or length < LEAST_LENGTH:
                self._close(number, batches, total, digest)
                self.expected = expected
                raise NotABatch(at)
            stop = at + PREFIX_BYTES + length
            if stop > size:
                break
            after = base + delta + 1
            self.passed = max(self.passed, after)
            if not start <= base < limit:
                at = stop
                continue
            if expected != base:
                self._out_of_place(expected, base, after)
            expected = after
            if crc32c(view[at + ATTRIBUTES_POSITION : stop]) != crc:
                self._bad_checksum(base, after)
                expected = UNKNOWN
            elif self._on_batch is not None:
                self._on_batch(view[at:stop], base, after)
            if epoch != self._epoch:
                self._new_epoch(epoch, base)
            if not low <= base < high:
                self._close(number, batches, total, digest)
                number = base // width
                low, high = number * width, (number + 1) * width
                batches = total = digest = 0
            row = view[at : at + ROW_BYTES]
            batches += 1
            total += stop - at
            digest += crc32c(row) * crc32(row)
            if self._rows is not None and number in self._rows:
                self._rows[number] += row
            if self._batch_positions is not None:
                self._batch_positions.extend((position + at, base, after))
            scan.end = after
            at = stop
        self._close(number, batches, total, digest)
        self.expected = expected
        return at

    def skip(self, reason: str, *, kind: str = finding.DAMAGED) -> None:
        """Skip the rest of a file that cannot be read; only the base offset of the next file is known."""
        offset = max(self.expected, self.scan.end, self._start)
        self.scan.add(Fault(kind, offset, offset, reason))
        self.expected = UNKNOWN

    def _close(self, number: int, batches: int, total: int, digest: int) -> None:
        if batches:
            before = self.scan.chunks.get(number, Chunk(0, 0, 0))
            summed = (before.digest + digest) & DIGEST_MASK
            self.scan.chunks[number] = Chunk(before.batches + batches, before.bytes + total, summed)
            self.scan.batches += batches
            self.scan.bytes += total

    def _out_of_place(self, expected: int, base: int, after: int) -> None:
        if self.scan.first == UNKNOWN:
            self.scan.first = base
        close_damage(self.scan.faults, base)
        fault = misplaced(expected, base, after, gaps_allowed=self._gaps_allowed)
        if fault is not None:
            self.scan.add(fault)

    def _bad_checksum(self, base: int, after: int) -> None:
        sentence = f"the checksum of the batch at offset {base} does not match"
        self.scan.add(Fault(finding.CHECKSUM, base, max(after, base + 1), sentence))

    def _new_epoch(self, epoch: int, base: int) -> None:
        if epoch < self._epoch:
            sentence = f"the batch at offset {base} is of epoch {epoch}, the one before it of {self._epoch}"
            self.scan.add(Fault(finding.EPOCH_ORDER, base, base + 1, sentence))
        self._epoch = epoch
        self.scan.epochs.append((epoch, base))


def close_damage(faults: list[Fault], base: int) -> None:
    """Set the end of damage, or of an unreadable range, at the next batch."""
    for index, fault in enumerate(faults):
        if fault.kind in (finding.DAMAGED, finding.UNREADABLE) and fault.end == fault.start < base:
            faults[index] = fault._replace(end=base)


def misplaced(expected: int, base: int, after: int, *, gaps_allowed: bool) -> Fault | None:
    """The fault of a batch at `base` where `expected` was expected; None if there is none or it is unknown."""
    if expected in (UNKNOWN, base) or (base > expected and gaps_allowed):
        return None
    if base > expected:
        return Fault(finding.GAP, expected, base, f"offsets {expected} to {base - 1} are missing")
    return Fault(finding.ORDER, base, max(after, base + 1), f"offset {base} is repeated: {expected} was expected")
