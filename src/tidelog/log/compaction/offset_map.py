"""The last offset of each key in the part of the log that is being compacted, in bounded memory."""

from collections.abc import Iterator, Sequence
from hashlib import md5
from zlib import crc32

ENTRY_BYTES = 128
"""The approximate size of an entry: a key of a few bytes, an offset, and their slot in the table."""

_LONG_KEY = 32
_TABLES = 64
"""A table that grows is copied as a whole, and one that is freed is freed entry by entry: a single table of a million
keys would block the loop for tens of milliseconds."""

_LAST_TABLE = _TABLES - 1


class OffsetMap:
    """Keys of 32 bytes and more are stored as digests, as Kafka does for all keys; shorter ones are stored as they are.

    `end` is one past the last offset that was processed: the map has nothing about later records. After `mark` a record
    is decided by its offset alone: looking up one of a million keys takes cache misses for its slot, its entry, the key
    and the offset.
    """

    __slots__ = ("_first", "_limit", "_passed", "_room", "_stays", "_tables", "end")

    def __init__(self, memory_bytes: int) -> None:
        self._limit = self._room = max(1, memory_bytes // ENTRY_BYTES)
        self._tables: list[dict[bytes, int]] = [{} for _ in range(_TABLES)]
        self._first = 0
        self._stays = bytearray()
        self._passed: list[tuple[int, int]] = []
        self.end = 0

    def __repr__(self) -> str:
        return f"<OffsetMap {len(self)} of {self._limit} keys to offset {self.end}>"

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    @property
    def is_full(self) -> bool:
        """The tables are counted only after enough records to fill them."""
        if self._room <= 0:
            self._room = self._limit - len(self)
        return self._room <= 0

    def put_all(self, keys: Sequence[bytes | None], deltas: Sequence[int], base_offset: int, first: int) -> None:
        """Add the records at `first` and above, in their order."""
        tables, first_delta = self._tables, first - base_offset
        self._room -= len(keys)
        for key, delta in zip(keys, deltas, strict=True):
            if key is not None and delta >= first_delta:
                short = key if len(key) < _LONG_KEY else _digest(key)
                tables[crc32(short) & _LAST_TABLE][short] = base_offset + delta

    def _last_offsets(self, keys: Sequence[bytes | None]) -> list[int]:
        """The last offset of each key; -1 if the map does not have it."""
        tables, found = self._tables, []
        for key in keys:
            if key is None:
                found.append(-1)
            else:
                short = key if len(key) < _LONG_KEY else _digest(key)
                found.append(tables[crc32(short) & _LAST_TABLE].get(short, -1))
        return found

    def pass_over(self, start: int, end: int) -> None:
        """The records of [start, end) were not added: the map has nothing about them either."""
        self._passed.append((start, end))

    def mark(self, first: int) -> Iterator[None]:
        """All keyed records of [first, end) were added or passed over: mark those that are the last of their keys,
        piece by piece. Does nothing if that would take more memory than the keys may."""
        if self.end - first > self._limit * ENTRY_BYTES:
            return
        stays, limit = bytearray(self.end - first), self.end
        for table in self._tables:
            for offset in table.values():
                if offset < limit:
                    stays[offset - first] = 1
            yield
        for start, stop in self._passed:
            skipped = max(start, first) - first
            stays[skipped : stop - first] = b"\1" * (stop - first - skipped)
        self._first, self._stays = first, stays

    def staying(self, keys: Sequence[bytes | None], deltas: Sequence[int], base_offset: int) -> list[int]:
        """The numbers of the records that stay: those with the last known offset of their key, and those that were not
        processed."""
        marked, known = base_offset - self._first, self.end - base_offset
        if 0 <= marked < len(self._stays):
            stays = self._stays
            return [
                number
                for number, delta in enumerate(deltas)
                if delta >= known or (delta >= 0 and stays[marked + delta])
            ]
        rows = enumerate(zip(keys, deltas, self._last_offsets(keys), strict=True))
        return [
            number
            for number, (key, delta, last) in rows
            if delta >= known or (key is not None and base_offset + delta >= last)
        ]

    def emptied(self) -> Iterator[None]:
        """Free the memory, piece by piece."""
        for table in self._tables:
            table.clear()
            yield


def _digest(key: bytes) -> bytes:
    return md5(key, usedforsecurity=False).digest()
