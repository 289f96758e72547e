"""The work of one task: read a piece of one replica's log and return digests. Everything here can be pickled."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tidelog.audit.core.acknowledged import Acknowledged, Search
from tidelog.audit.core.keys import LastValueDigests, LastValues
from tidelog.audit.core.scanning import NO_END, Chunk, OnBatch, Scan, Scanner
from tidelog.audit.io import fetching, segment_files
from tidelog.log import names
from tidelog.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Piece:
    """Batches of one replica that begin in [start, end): from consecutive files, or fetched from its broker.

    `number` is its index among the replica's pieces, `until` the base offset of the segment after its files. `width` is
    the width of a chunk, in offsets. `checks_indexes`: whole files are read, so their indexes can be checked.
    """

    name: TopicPartition
    broker: int
    number: int
    width: int
    gaps_allowed: bool = False
    start: int = 0
    end: int = NO_END
    files: tuple[str, ...] = ()
    until: int = NO_END
    is_growing: bool = False
    is_last: bool = False
    checks_indexes: bool = False
    source: fetching.Source | None = None
    acknowledged: tuple[Acknowledged, ...] = ()
    size: int = 0


@dataclass(frozen=True, slots=True)
class Chunks:
    """Chunks of a piece to examine; `width` is the width of the chunks to divide them into."""

    piece: Piece
    numbers: tuple[int, ...]
    width: int = 0


@dataclass(frozen=True, slots=True)
class Keys:
    """All pieces of one replica of a compacted topic: first digests at `cuts`, then the records of whole `buckets`."""

    pieces: tuple[Piece, ...]
    cuts: tuple[int, ...] = ()
    buckets: frozenset[int] = frozenset()


def narrowed(piece: Piece, numbers: Sequence[int], width: int) -> Chunks | None:
    """The part of the piece to read again for these chunks of this width, ascending; None if it has none of them.
    Offsets between them are fetched, too, but files between them are skipped."""
    bases = [names.offset_of(Path(file).name) or 0 for file in piece.files]
    bounds = [*bases, piece.until] if bases else [piece.start, piece.end]
    low, high = max(piece.start, bounds[0]), min(piece.end, bounds[-1])
    own = tuple(number for number in numbers if number * width < high and (number + 1) * width > low)
    if not own:
        return None
    plain = replace(piece, width=width, acknowledged=(), checks_indexes=False)
    if piece.source is not None:
        ends = max(piece.start, own[0] * width), min(piece.end, (own[-1] + 1) * width)
        return Chunks(replace(plain, start=ends[0], end=ends[1]), own)
    kept = [
        file
        for file, base, after in zip(piece.files, bases, bounds[1:], strict=True)
        if any(number * width < after and (number + 1) * width > base for number in own)
    ]
    return Chunks(replace(plain, files=tuple(kept)), own)


def scan(piece: Piece) -> Scan:
    """Scan a piece: its digests and faults."""
    search = Search(piece.acknowledged) if piece.acknowledged else None
    batch_positions = array("q") if piece.checks_indexes else None
    scanner = _scanner(piece, on_batch=search.on_batch if search else None, batch_positions=batch_positions)
    _read(piece, scanner, batch_positions)
    if search is not None:
        scanner.scan.missing = sorted(search.missing.items())
    return scanner.scan


def divided(wanted: Chunks) -> tuple[dict[int, Chunk], bool]:
    """The digests of the parts, and whether all of it could be read."""
    ratio = wanted.piece.width // wanted.width
    parts = frozenset(number * ratio + part for number in wanted.numbers for part in range(ratio))
    scanner = _scanner(replace(wanted.piece, width=wanted.width))
    _read(wanted.piece, scanner, None)
    found = {number: chunk for number, chunk in scanner.scan.chunks.items() if number in parts}
    return found, not scanner.scan.trouble


def rows(wanted: Chunks) -> tuple[dict[int, bytes], bool]:
    """chunk → the headers of its batches in this piece, and whether all of it could be read."""
    found = {number: bytearray() for number in wanted.numbers}
    scanner = _scanner(wanted.piece, rows=found)
    _read(wanted.piece, scanner, None)
    return {number: bytes(content) for number, content in found.items()}, not scanner.scan.trouble


def key_digests(wanted: Keys) -> dict[int, list[int]] | None:
    """cut → a digest of each bucket of keys; None if a piece cannot be read."""
    found = _last_values(wanted)
    return None if found is None else found.finish()


def last_values(wanted: Keys) -> LastValueDigests | None:
    """The last records of keys in the requested buckets; None if a piece cannot be read."""
    found = _last_values(wanted)
    return None if found is None else found.of(set(wanted.buckets))


def _last_values(wanted: Keys) -> LastValues | None:
    found = LastValues(wanted.cuts)
    for piece in wanted.pieces:
        scanner = _scanner(piece, on_batch=found.on_batch)
        _read(piece, scanner, None)
        if scanner.scan.trouble:
            return None
    return found


def _scanner(
    piece: Piece,
    *,
    on_batch: OnBatch | None = None,
    rows: dict[int, bytearray] | None = None,
    batch_positions: "array[int] | None" = None,
) -> Scanner:
    return Scanner(
        piece.width,
        start=piece.start,
        end=piece.end,
        gaps_allowed=piece.gaps_allowed,
        on_batch=on_batch,
        rows=rows,
        batch_positions=batch_positions,
    )


def _read(piece: Piece, scanner: Scanner, batch_positions: "array[int] | None") -> None:
    """Feed the scanner; an error is recorded as the scan's `trouble`."""
    try:
        if piece.source is not None:
            fetching.read(piece.source, piece.name, piece.start, piece.end, scanner)
            return
        for path, is_last in _marked(piece):
            segment_files.read_segment(path, scanner, is_last=is_last, is_growing=piece.is_growing)
            if batch_positions is not None:
                for fault in segment_files.index_faults(path, batch_positions):
                    scanner.scan.add(fault)
                del batch_positions[:]
    except (OSError, fetching.NotReadable) as error:
        scanner.scan.trouble = str(error)


def _marked(piece: Piece) -> Iterator[tuple[str, bool]]:
    """Each file, and whether it is the last of the log."""
    for path in piece.files:
        yield path, piece.is_last and path == piece.files[-1]
