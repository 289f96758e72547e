"""Alarms: when each part of a broker is to be woken.

Each part sets its own alarm whenever its deadline changes, so that the node need not poll all of them after every
input.
"""

from collections.abc import Sequence
from typing import Any, Protocol

NEVER = 2**63 - 1
"""A monotonic millisecond that is never reached."""


class Alarm:
    """When one part of a broker is to be woken. The part sets it at each change of its deadline."""

    __slots__ = ("_first_of", "at")

    def __init__(self) -> None:
        self.at = NEVER
        self._first_of: Alarms | None = None

    def __repr__(self) -> str:
        return f"<Alarm {'off' if self.at == NEVER else self.at}>"

    def belongs_to(self, alarms: "Alarms") -> None:
        self._first_of = alarms

    def set(self, at: int | None) -> None:
        """A monotonic millisecond in place of the one before; None for never."""
        moment = NEVER if at is None else at
        before = self.at
        if moment != before:
            self.at = moment
            if self._first_of is not None:
                self._first_of.moved(before, moment)


class Clocked(Protocol):
    """A part with an alarm. If it also has `next_deadline`, that computes from its state what the alarm must be."""

    @property
    def alarm(self) -> Alarm: ...


class Woken(Clocked, Protocol):
    """A part that acts on time."""

    def wake(self, now: Any, /) -> Any:
        """The alarm is due: act, and set it again. The effects, or None."""


class Alarms:
    """`first` is the earliest of all. It is read after every input, and seldom another than before."""

    def __init__(self, parts: Sequence[Clocked]) -> None:
        self._parts = parts
        self._alarms = [part.alarm for part in parts]
        self.first = min(alarm.at for alarm in self._alarms)
        for alarm in self._alarms:
            alarm.belongs_to(self)

    def __repr__(self) -> str:
        return f"<Alarms {self._alarms}>"

    def moved(self, before: int, at: int) -> None:
        if at < self.first:
            self.first = at
        elif before == self.first:
            self.first = min([alarm.at for alarm in self._alarms])

    def check_invariants(self) -> None:
        assert self.first == min(alarm.at for alarm in self._alarms)
        part: Any
        for part in self._parts:
            if hasattr(type(part), "next_deadline"):
                due = part.next_deadline
                assert part.alarm.at == (NEVER if due is None else due), f"{part!r} is due at {due}: {part.alarm}"
