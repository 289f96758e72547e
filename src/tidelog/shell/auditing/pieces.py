"""The work of one task: a piece of one replica's log, read and turned into digests. Everything here can be pickled."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tidelog.audit.acknowledged import Acknowledged, Search
from tidelog.audit.keys import LastValues, Told
from tidelog.audit.scanning import NO_END, Look, Scan, Scanner
from tidelog.log import names
from tidelog.model import TopicPartition
from tidelog.shell.auditing import fetching, files, indexes


@dataclass(frozen=True, slots=True)
class Piece:
    """Batches of one replica that begin in [start, end): of files that follow each other, or fetched from its broker.

    `number` is its place among the replica's pieces, `until` where the segment behind its files begins. `width` is that
    of a chunk, in offsets. `checks_indexes`: whole files are read, so that their indexes can be held against them.
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
    """Chunks of a piece that are to be looked into."""

    piece: Piece
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """All pieces of one replica of a compacted topic; `buckets` are to be told whole, none at first."""

    pieces: tuple[Piece, ...]
    buckets: frozenset[int] = frozenset()


def narrowed(piece: Piece, numbers: Sequence[int]) -> Chunks | None:
    """What of the piece must be read again to see these chunks, ascending; None where it has nothing of them."""
    own = replace(piece, acknowledged=(), checks_indexes=False)
    low, high = numbers[0] * piece.width, (numbers[-1] + 1) * piece.width
    if piece.source is not None:
        own = replace(own, start=max(piece.start, low), end=min(piece.end, high))
        return Chunks(own, tuple(numbers)) if own.start < own.end else None
    bases = [names.offset_of(Path(file).name) or 0 for file in piece.files]
    kept = [
        file
        for file, base, after in zip(piece.files, bases, [*bases[1:], piece.until], strict=True)
        if base < high and after > low
    ]
    return Chunks(replace(own, files=tuple(kept)), tuple(numbers)) if kept else None


def scan(piece: Piece) -> Scan:
    """The digest of a piece."""
    search = Search(piece.acknowledged) if piece.acknowledged else None
    places = array("q") if piece.checks_indexes else None
    scanner = _scanner(piece, look=search.look if search else None, places=places)
    _read(piece, scanner, places)
    if search is not None:
        scanner.scan.missing = sorted(search.missing.items())
    return scanner.scan


def rows(wanted: Chunks) -> tuple[dict[int, bytes], bool]:
    """chunk → the headers of its batches in this piece, and whether all of it could be read."""
    found = {number: bytearray() for number in wanted.numbers}
    scanner = _scanner(wanted.piece, rows=found)
    _read(wanted.piece, scanner, None)
    return {number: bytes(content) for number, content in found.items()}, not scanner.scan.trouble


def key_digests(wanted: Keys) -> list[int] | None:
    """A digest of each bucket of keys; None where a piece cannot be read."""
    found = _last_values(wanted.pieces)
    return None if found is None else found.digests()


def last_values(wanted: Keys) -> Told | None:
    """The last records of keys in the wanted buckets; None where a piece cannot be read."""
    found = _last_values(wanted.pieces)
    return None if found is None else found.of(set(wanted.buckets))


def _last_values(pieces: Sequence[Piece]) -> LastValues | None:
    found = LastValues()
    for piece in pieces:
        scanner = _scanner(piece, look=found.look)
        _read(piece, scanner, None)
        if scanner.scan.trouble:
            return None
    return found


def _scanner(
    piece: Piece,
    *,
    look: Look | None = None,
    rows: dict[int, bytearray] | None = None,
    places: "array[int] | None" = None,
) -> Scanner:
    return Scanner(
        piece.width,
        start=piece.start,
        end=piece.end,
        gaps_allowed=piece.gaps_allowed,
        look=look,
        rows=rows,
        places=places,
    )


def _read(piece: Piece, scanner: Scanner, places: "array[int] | None") -> None:
    """Feed the scanner; what stands in the way is the scan's `trouble`."""
    try:
        if piece.source is not None:
            fetching.read(piece.source, piece.name, piece.start, piece.end, scanner)
            return
        for path, is_last in _marked(piece):
            files.read(path, scanner, is_last=is_last, is_growing=piece.is_growing)
            if places is not None:
                for fault in indexes.faults(path, places):
                    scanner.scan.add(fault)
                del places[:]
    except (OSError, fetching.NotReadable) as error:
        scanner.scan.trouble = str(error)


def _marked(piece: Piece) -> Iterator[tuple[str, bool]]:
    """Each file, and whether it is the last of the log."""
    for path in piece.files:
        yield path, piece.is_last and path == piece.files[-1]
