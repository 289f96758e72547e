"""The sparse indexes of a segment: from offset to byte position, and from timestamp to offset.

Both are kept in memory exactly as in their files, so loading and writing copy bytes, and an entry costs 8 or 12 of
them. Entries ascend. An offset entry names the last offset of a batch and the position where that batch starts; a time
entry says that no record up to its offset (the last of a batch) has a later timestamp.
"""

from bisect import bisect_left, bisect_right
from struct import Struct

_OFFSET_ENTRY = Struct(">ii")  # offset relative to the segment's base, position
_TIME_ENTRY = Struct(">qi")  # timestamp, relative offset
_INT32 = Struct(">i")
_INT64 = Struct(">q")

MAX_RELATIVE_OFFSET = 2**31 - 1
OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12


class OffsetIndex:
    """Offset → position. `content` is the file's."""

    __slots__ = ("base_offset", "content")

    def __init__(self, base_offset: int, content: bytes | bytearray = b"") -> None:
        self.base_offset = base_offset
        self.content = bytearray(content)

    def __repr__(self) -> str:
        return f"<OffsetIndex {self.base_offset} {len(self)} entries>"

    def __len__(self) -> int:
        return len(self.content) // OFFSET_ENTRY_BYTES

    def entry(self, number: int) -> tuple[int, int]:
        """(offset, position)."""
        relative, position = _OFFSET_ENTRY.unpack_from(self.content, number * OFFSET_ENTRY_BYTES)
        return self.base_offset + relative, position

    @property
    def last(self) -> tuple[int, int] | None:
        return self.entry(len(self) - 1) if self.content else None

    def append(self, offset: int, position: int) -> None:
        assert not self.content or offset > self.entry(len(self) - 1)[0], (offset, self)
        self.content += _OFFSET_ENTRY.pack(offset - self.base_offset, position)

    def floor(self, offset: int) -> int:
        """The position from which a scan forward meets the first batch that ends at or after `offset`."""
        slot = bisect_right(range(len(self)), offset - self.base_offset, key=self._relative) - 1
        return self.entry(slot)[1] if slot >= 0 else 0

    def offset_from(self, position: int) -> int | None:
        """The last offset of the first indexed batch at or behind `position`; None where none is."""
        slot = bisect_left(range(len(self)), position, key=lambda number: self.entry(number)[1])
        return self.entry(slot)[0] if slot < len(self) else None

    def truncate(self, offset: int) -> None:
        """Keep the entries below `offset`."""
        kept = bisect_left(range(len(self)), offset - self.base_offset, key=self._relative)
        del self.content[kept * OFFSET_ENTRY_BYTES :]

    def is_sane(self, log_bytes: int) -> bool:
        """Whether this can be the index of a log file of that size; what a torn or foreign file is not."""
        if len(self.content) % OFFSET_ENTRY_BYTES:
            return False
        if not self.content:
            return True
        (first, _), (last, position) = self.entry(0), self.entry(len(self) - 1)
        return self.base_offset <= first <= last and 0 <= position < log_bytes

    def _relative(self, number: int) -> int:
        relative: int = _INT32.unpack_from(self.content, number * OFFSET_ENTRY_BYTES)[0]
        return relative


class TimeIndex:
    """Timestamp → offset. `content` is the file's."""

    __slots__ = ("base_offset", "content")

    def __init__(self, base_offset: int, content: bytes | bytearray = b"") -> None:
        self.base_offset = base_offset
        self.content = bytearray(content)

    def __repr__(self) -> str:
        return f"<TimeIndex {self.base_offset} {len(self)} entries>"

    def __len__(self) -> int:
        return len(self.content) // TIME_ENTRY_BYTES

    def entry(self, number: int) -> tuple[int, int]:
        """(timestamp, offset)."""
        timestamp, relative = _TIME_ENTRY.unpack_from(self.content, number * TIME_ENTRY_BYTES)
        return timestamp, self.base_offset + relative

    @property
    def last(self) -> tuple[int, int] | None:
        return self.entry(len(self) - 1) if self.content else None

    def maybe_append(self, timestamp: int, offset: int) -> bool:
        """Add the entry where its timestamp is later than all before it."""
        last = self.last
        if timestamp <= (last[0] if last else -1):
            return False
        assert last is None or offset >= last[1], (timestamp, offset, last)
        self.content += _TIME_ENTRY.pack(timestamp, offset - self.base_offset)
        return True

    def floor(self, timestamp: int) -> int:
        """An offset such that no record before its batch has a timestamp of at least `timestamp`."""
        slot = bisect_right(range(len(self)), timestamp, key=self._timestamp) - 1
        return self.entry(slot)[1] if slot >= 0 else self.base_offset

    def truncate(self, offset: int) -> None:
        """Keep the entries below `offset`."""
        kept = bisect_left(range(len(self)), offset - self.base_offset, key=self._relative)
        del self.content[kept * TIME_ENTRY_BYTES :]

    def is_sane(self) -> bool:
        if len(self.content) % TIME_ENTRY_BYTES:
            return False
        if not self.content:
            return True
        (first_time, first), (last_time, last) = self.entry(0), self.entry(len(self) - 1)
        return first_time <= last_time and self.base_offset <= first <= last

    def _timestamp(self, number: int) -> int:
        timestamp: int = _INT64.unpack_from(self.content, number * TIME_ENTRY_BYTES)[0]
        return timestamp

    def _relative(self, number: int) -> int:
        relative: int = _INT32.unpack_from(self.content, number * TIME_ENTRY_BYTES + 8)[0]
        return relative
