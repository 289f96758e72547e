"""What a segment remembers of its soundness for as long as its file is open."""

from tidelog.log.integrity.examination import Fault
from tidelog.log.integrity.stretches import Stretches

NOTHING = 2**63


class Soundness:
    """Bytes at or above `trusted` were written by this process. `stretches` were examined, and are sound but for
    `faults`, by position."""

    __slots__ = ("faults", "stretches", "trusted")

    def __init__(self, trusted: int = NOTHING) -> None:
        self.trusted = trusted
        self.stretches = Stretches()
        self.faults: dict[int, Fault] = {}

    def __repr__(self) -> str:
        return f"<Soundness from {self.trusted}, {self.stretches!r}, {len(self.faults)} faults>"

    def first_fault(self, start: int, end: int) -> Fault | None:
        """The first in [start, end)."""
        if not self.faults:
            return None
        return self.faults.get(min((at for at in self.faults if start <= at < end), default=-1))

    def wall(self, start: int) -> int:
        """The first fault at or above `start` without a length: nothing behind it was looked at from there."""
        return min((at for at, fault in self.faults.items() if at >= start and not fault.length), default=NOTHING)

    def obstacle(self, offset: int) -> Fault | None:
        """A fault without a length at or below the offset: nobody finds past it."""
        return min(
            (fault for fault in self.faults.values() if not fault.length and fault.offset <= offset), default=None
        )
