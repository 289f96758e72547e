"""A segment's file, read in large steps."""

import os
from pathlib import Path

from tidelog.audit.core import finding
from tidelog.audit.core.scanning import NoBatch, Scanner
from tidelog.wire.records import HEADER_BYTES, LENGTH_POSITION, PREFIX_BYTES

STEP_BYTES = 4 * 1024 * 1024


def read(path: str, scanner: Scanner, *, is_last: bool = True, is_growing: bool = False) -> None:
    """Feed the whole file. What is damaged or cut off is the scanner's to tell; OSError where it cannot be read. The
    last file of a log that is being written may end anywhere."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        position = _feed(file, path, size, scanner)
        if position < size and not (is_growing and is_last):
            _told(file, path, position, size, scanner, is_last=is_last)
    finally:
        os.close(file)


def _feed(file: int, path: str, size: int, scanner: Scanner) -> int:
    """How far there are whole batches."""
    position, step = 0, STEP_BYTES
    while position + HEADER_BYTES <= size:
        data = os.pread(file, min(step, size - position), position)
        if len(data) < HEADER_BYTES:
            break
        try:
            used = scanner.feed(data, position)
        except NoBatch as where:
            _no_batch(data[where.used :], path, position + where.used, scanner)
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


def _no_batch(rest: bytes, path: str, position: int, scanner: Scanner) -> None:
    """Zeros are room that was made before it was needed."""
    if rest.strip(b"\0"):
        scanner.skip(f"{Path(path).name}: there is no batch at byte {position}")


def _told(file: int, path: str, position: int, size: int, scanner: Scanner, *, is_last: bool) -> None:
    rest = os.pread(file, min(size - position, STEP_BYTES), position)
    if len(rest) >= HEADER_BYTES and not rest.strip(b"\0"):
        return
    kind = finding.TORN if is_last else finding.DAMAGED
    where = f"{Path(path).name}: {size - position} bytes from {position} on"
    scanner.skip(
        f"{where} are {'not a whole batch' if is_last else 'no whole batch, and another segment follows'}", kind=kind
    )
