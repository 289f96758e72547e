"""Which bytes of a segment were verified recently. Results expire, because pages are evicted from memory and are then
read from the disk again."""

from bisect import bisect_left, bisect_right

from tidelog.log.examination import Fault


class Stretches:
    """Sorted half-open ranges of a file; adjacent ones are joined."""

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
        """Whether all of [start, end) is in one range."""
        slot = bisect_right(self._starts, start) - 1
        return start >= end or (slot >= 0 and end <= self._ends[slot])


NOTHING = 2**63


class Soundness:
    """Bytes at or above `trusted` were written by this process recently. `stretches` were verified recently, and are
    valid except for `faults`, by position."""

    __slots__ = ("_grown", "faults", "stretches", "trusted")

    def __init__(self, trusted: int = NOTHING) -> None:
        self.trusted = self._grown = trusted
        self.stretches = Stretches()
        self.faults: dict[int, Fault] = {}

    def __repr__(self) -> str:
        return f"<Soundness from {self.trusted}, {self.stretches!r}, {len(self.faults)} faults>"

    def age(self, size: int) -> None:
        """Time has passed: bytes written before the previous call, and everything that was verified, are no longer
        trusted."""
        self.trusted, self._grown = max(self.trusted, self._grown), size
        self.stretches = Stretches()

    def first_fault(self, start: int, end: int) -> Fault | None:
        """The first fault in [start, end)."""
        if not self.faults:
            return None
        return self.faults.get(min((at for at in self.faults if start <= at < end), default=-1))

    def wall(self, start: int) -> int:
        """The position of the first fault at or above `start` without a length: nothing behind it was verified from
        there."""
        return min((at for at, fault in self.faults.items() if at >= start and not fault.length), default=NOTHING)

    def obstacle(self, offset: int) -> Fault | None:
        """A fault without a length at or below the offset: no scan gets past it."""
        return min(
            (fault for fault in self.faults.values() if not fault.length and fault.offset <= offset), default=None
        )
