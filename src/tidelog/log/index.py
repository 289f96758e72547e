"""Positions of batches in a segment: its sparse indexes, from offset to byte position and from timestamp to offset, and
for the active segment the positions of its last batches, for readers near the end.

Both indexes have the same bytes in memory as in their files, so loading and writing copy bytes, and an entry takes 8 or
12 of them. Entries ascend. An offset entry has the last offset of a batch and the position where that batch starts; a
time entry says that no record up to its offset (the last of a batch) has a later timestamp.
"""

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import NamedTuple

_OFFSET_ENTRY = Struct(">ii")  # offset relative to the segment's base, position
_TIME_ENTRY = Struct(">qi")  # timestamp, relative offset
_INT32 = Struct(">i")
_INT64 = Struct(">q")

MAX_RELATIVE_OFFSET = 2**31 - 1
OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12


class OffsetIndex:
    """Offset → position. `content` is the content of the file."""

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
        """A position from which a forward scan finds the first batch that ends at or after `offset`."""
        slot = bisect_right(range(len(self)), offset - self.base_offset, key=self._relative) - 1
        return self.entry(slot)[1] if slot >= 0 else 0

    def offset_from(self, position: int) -> int | None:
        """The last offset of the first indexed batch at or behind `position`; None if there is none."""
        slot = bisect_left(range(len(self)), position, key=lambda number: self.entry(number)[1])
        return self.entry(slot)[0] if slot < len(self) else None

    def truncate(self, offset: int) -> None:
        """Keep the entries below `offset`."""
        kept = bisect_left(range(len(self)), offset - self.base_offset, key=self._relative)
        del self.content[kept * OFFSET_ENTRY_BYTES :]

    def is_sane(self, log_bytes: int) -> bool:
        """Whether this can be the index of a log file of that size; a torn or foreign file cannot."""
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
    """Timestamp → offset. `content` is the content of the file."""

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
        """Add the entry if its timestamp is later than all before it; returns whether it is."""
        last = self.last
        if timestamp <= (last[0] if last else -1):
            return False
        assert last is None or offset >= last[1], (timestamp, offset, last)
        self.content += _TIME_ENTRY.pack(timestamp, offset - self.base_offset)
        return True

    def floor(self, timestamp: int) -> tuple[int, int] | None:
        """The last entry that is not later than `timestamp`: no record before the batch with its offset has a later
        timestamp. None if all are later."""
        slot = bisect_right(range(len(self)), timestamp, key=self._timestamp) - 1
        return self.entry(slot) if slot >= 0 else None

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


TAIL_BATCHES = 256


class BatchPosition(NamedTuple):
    """The position of a batch in its segment's file."""

    position: int
    length: int


class Tail:
    """The positions of the last few hundred batches of the active segment, for readers near the end."""

    __slots__ = ("_ends", "_positions")

    def __init__(self) -> None:
        self._ends = array("q")
        self._positions = array("q")

    def add(self, last_offset: int, position: int) -> None:
        self._ends.append(last_offset)
        self._positions.append(position)
        if len(self._ends) > 2 * TAIL_BATCHES:
            del self._ends[:TAIL_BATCHES]
            del self._positions[:TAIL_BATCHES]

    def find(self, offset: int, size: int) -> BatchPosition | None:
        """The first batch that ends at or after `offset`; None if that is not certain."""
        slot = bisect_left(self._ends, offset)
        if slot == len(self._ends) or (slot == 0 and self._positions[0] != 0):
            return None
        position = self._positions[slot]
        behind = self._positions[slot + 1] if slot + 1 < len(self._positions) else size
        return BatchPosition(position, behind - position)

    def boundary(self, position: int) -> int | None:
        """The last start of a batch at or before `position`; None if it is not stored any more."""
        slot = bisect_right(self._positions, position)
        return self._positions[slot - 1] if slot else None

    def truncate(self, position: int) -> None:
        kept = bisect_left(self._positions, position)
        del self._ends[kept:]
        del self._positions[kept:]
