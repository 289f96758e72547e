"""Reads the files of a segment: its batches, in large steps, and its offset index, which is checked against
them (I2)."""

import os
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from tidelog.audit.core import finding
from tidelog.audit.core.finding import INDEX
from tidelog.audit.core.scanning import Fault, NotABatch, Scanner
from tidelog.log import names
from tidelog.wire.records import HEADER_BYTES, LENGTH_POSITION, PREFIX_BYTES

STEP_BYTES = 4 * 1024 * 1024

_ENTRY = Struct(">ii")
MOST_INDEX_FAULTS = 3


def read_segment(path: str, scanner: Scanner, *, is_last: bool = True, is_growing: bool = False) -> None:
    """Feed the whole file; the scanner reports damage. OSError if it cannot be read. The last file of a log that is
    being written may end anywhere."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        position = _feed(file, path, size, scanner)
        if position < size and not (is_growing and is_last):
            _report_rest(file, path, position, size, scanner, is_last=is_last)
    finally:
        os.close(file)


def _feed(file: int, path: str, size: int, scanner: Scanner) -> int:
    """Feed the whole batches; return the position after the last one."""
    position, step = 0, STEP_BYTES
    while position + HEADER_BYTES <= size:
        data = os.pread(file, min(step, size - position), position)
        if len(data) < HEADER_BYTES:
            break
        try:
            used = scanner.feed(data, position)
        except NotABatch as where:
            _report_damage(data[where.used :], path, position + where.used, scanner)
            return size
        position += used
        length = int.from_bytes(data[used + LENGTH_POSITION : used + PREFIX_BYTES]) + PREFIX_BYTES
        if len(data) - used < PREFIX_BYTES:
            step = STEP_BYTES
        elif position + length > size:
            break
        else:
            step = max(STEP_BYTES, length)
    return position


def _report_damage(rest: bytes, path: str, position: int, scanner: Scanner) -> None:
    """Report damage, unless the rest is zeros: preallocated space."""
    if rest.strip(b"\0"):
        scanner.skip(f"{Path(path).name}: no valid batch at byte {position}")


def _report_rest(file: int, path: str, position: int, size: int, scanner: Scanner, *, is_last: bool) -> None:
    rest = os.pread(file, min(size - position, STEP_BYTES), position)
    if len(rest) >= HEADER_BYTES and not rest.strip(b"\0"):
        return
    kind = finding.TORN if is_last else finding.DAMAGED
    where = f"{Path(path).name}: {size - position} bytes from {position} on"
    scanner.skip(
        f"{where} are {'not a whole batch' if is_last else 'not a whole batch, but another segment follows'}", kind=kind
    )


def index_faults(log_path: str, batch_positions: "array[int]") -> Iterator[Fault]:
    """Faults of the index: entries that do not point to a batch. `batch_positions` has (position, base offset, end) of
    each batch of the file. A preallocated index ends with zeros. Entries beyond the last batch are not judged: the log
    may be damaged, or being written."""
    path = Path(log_path).with_suffix(names.INDEX)
    base = names.offset_of(path.name) or 0
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    positions = batch_positions[0::3]
    last, reported = -1, 0
    for number, (relative, position) in enumerate(_ENTRY.iter_unpack(content[: len(content) // 8 * 8])):
        if relative == 0 and position == 0 and number:
            return
        if not positions or position > positions[-1]:
            return
        slot = bisect_left(positions, position)
        is_batch = slot < len(positions) and positions[slot] == position
        offset = base + relative
        if (
            relative <= last
            or not is_batch
            or not batch_positions[3 * slot + 1] <= offset < batch_positions[3 * slot + 2]
        ):
            yield Fault(
                INDEX, offset, offset + 1, f"{path.name}: entry {number} points to offset {offset} at byte {position}"
            )
            reported += 1
        last = relative
        if reported == MOST_INDEX_FAULTS:
            return
