"""Answers leave a connection in the order of its requests, however they become ready (the protocol has no other way
to tell them apart for every client)."""

from collections import deque
from collections.abc import Sequence

from tidelog.effects import Part


class Slot:
    """A request's place in the order."""

    __slots__ = ("answered", "parts")

    def __init__(self) -> None:
        self.answered = False
        self.parts: Sequence[Part] | None = None


class Pipeline:
    """The requests of one connection that are not answered yet, in their order."""

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque()

    def __repr__(self) -> str:
        return f"<Pipeline waiting={len(self._slots)}>"

    @property
    def waiting(self) -> int:
        """Requests whose answers have not left, ready ones behind a slow one included."""
        return len(self._slots)

    def open(self) -> Slot:
        """A place in the order for the request that just came."""
        slot = Slot()
        self._slots.append(slot)
        return slot

    def answer(self, slot: Slot, parts: Sequence[Part] | None) -> list[Part]:
        """Fill the place, with None where the request gets no answer; returns all that may be sent now."""
        assert not slot.answered, "a request is answered once"
        slot.answered = True
        slot.parts = parts
        slots = self._slots
        ready: list[Part] = []
        while slots and slots[0].answered:
            ready.extend(slots.popleft().parts or ())
        return ready
