"""Where the last batches of a log lie: what readers near the end ask for."""

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

TAIL_BATCHES = 256


class BatchPosition(NamedTuple):
    """Where a batch lies in its segment's file."""

    position: int
    length: int


class Tail:
    """The positions of the last few hundred batches of the active segment: what readers near the end ask for."""

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
        """The first batch that ends at or after `offset`, where that is certain."""
        slot = bisect_left(self._ends, offset)
        if slot == len(self._ends) or (slot == 0 and self._positions[0] != 0):
            return None
        position = self._positions[slot]
        behind = self._positions[slot + 1] if slot + 1 < len(self._positions) else size
        return BatchPosition(position, behind - position)

    def boundary(self, position: int) -> int | None:
        """The last start of a batch at or before `position`, where it is remembered."""
        slot = bisect_right(self._positions, position)
        return self._positions[slot - 1] if slot else None

    def truncate(self, position: int) -> None:
        kept = bisect_left(self._positions, position)
        del self._ends[kept:]
        del self._positions[kept:]
