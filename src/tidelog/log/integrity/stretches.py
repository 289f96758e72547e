"""Ranges of a file, half open, joined where they touch."""

from bisect import bisect_left, bisect_right


class Stretches:
    """Sorted, without overlap."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __repr__(self) -> str:
        return f"<Stretches {list(zip(self._starts, self._ends, strict=True))}>"

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, start: int, end: int) -> None:
        if start >= end:
            return
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def cover(self, start: int, end: int) -> bool:
        """Whether all of [start, end) is in one of them."""
        slot = bisect_right(self._starts, start) - 1
        return start >= end or (slot >= 0 and end <= self._ends[slot])
