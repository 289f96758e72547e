"""Which is the last offset of each key in the part of the log that is being compacted, in bounded memory."""

from collections.abc import Iterable
from hashlib import md5
from zlib import crc32

from tidelog.wire.record_format import Outline

ENTRY_BYTES = 128
"""About what an entry takes: a key of a few bytes, an offset, and their place in the table."""

_LONG_KEY = 32
_TABLES = 64
"""A table that grows is copied whole: one of a million keys would hold the loop for tens of milliseconds."""


class OffsetMap:
    """Keys of 32 bytes and more are kept by their digest, as Kafka keeps all of them; shorter ones as they are.

    `end` is one past the last offset that was looked at: of later records the map knows nothing.
    """

    __slots__ = ("_limit", "_tables", "end")

    def __init__(self, memory_bytes: int) -> None:
        self._limit = max(1, memory_bytes // ENTRY_BYTES)
        self._tables: tuple[dict[bytes, int], ...] = tuple({} for _ in range(_TABLES))
        self.end = 0

    def __repr__(self) -> str:
        return f"<OffsetMap {len(self)} of {self._limit} keys to offset {self.end}>"

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    @property
    def is_full(self) -> bool:
        return len(self) >= self._limit

    def put_all(self, some: Iterable[Outline], base_offset: int, first: int) -> None:
        """Take in the records at `first` and above, in their order."""
        tables = self._tables
        for one in some:
            key, offset = one.key, base_offset + one.offset_delta
            if key is not None and offset >= first:
                if len(key) >= _LONG_KEY:
                    key = _digest(key)
                tables[crc32(key) % _TABLES][key] = offset

    def get(self, key: bytes) -> int:
        """The key's last offset; -1 where the map does not have it."""
        if len(key) >= _LONG_KEY:
            key = _digest(key)
        return self._tables[crc32(key) % _TABLES].get(key, -1)


def _digest(key: bytes) -> bytes:
    return md5(key, usedforsecurity=False).digest()
