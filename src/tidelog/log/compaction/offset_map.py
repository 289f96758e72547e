"""Which is the last offset of each key in the part of the log that is being compacted, in bounded memory."""

from hashlib import md5

ENTRY_BYTES = 128
"""About what an entry takes: a key of a few bytes, an offset, and their place in the table."""

_LONG_KEY = 16


class OffsetMap:
    """Keys of 16 bytes and more are kept by their digest, as Kafka keeps all of them; shorter ones as they are.

    `end` is one past the last offset that was looked at: of later records the map knows nothing.
    """

    __slots__ = ("_limit", "_offsets", "end")

    def __init__(self, memory_bytes: int) -> None:
        self._limit = max(1, memory_bytes // ENTRY_BYTES)
        self._offsets: dict[bytes, int] = {}
        self.end = 0

    def __repr__(self) -> str:
        return f"<OffsetMap {len(self)} of {self._limit} keys to offset {self.end}>"

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._limit

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[key if len(key) < _LONG_KEY else md5(key, usedforsecurity=False).digest()] = offset

    def get(self, key: bytes) -> int:
        """The key's last offset; -1 where the map does not have it."""
        return self._offsets.get(key if len(key) < _LONG_KEY else md5(key, usedforsecurity=False).digest(), -1)
