"""The last events of this broker, bounded in number, for later diagnosis."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.effects import Event
from tidelog.model import Time

KEPT = 4096
"""Events; at some hundred bytes each this stays below a megabyte."""


class LoggedEvent(NamedTuple):
    """`number` counts all events of this life of the broker."""

    number: int
    wall_ms: int
    event: Event


class EventLog:
    def __init__(self, kept: int = KEPT) -> None:
        self._entries: deque[LoggedEvent] = deque(maxlen=kept)
        self._count = 0

    def __repr__(self) -> str:
        return f"<EventLog {len(self._entries)} of {self._count}>"

    @property
    def forgotten(self) -> int:
        return self._count - len(self._entries)

    def note(self, event: Event, now: Time) -> None:
        self._entries.append(LoggedEvent(self._count, now.wall, event))
        self._count += 1

    def since(self, number: int, subject: str | None = None) -> Iterator[LoggedEvent]:
        """From the event of this number on, those about a partition and those about no partition in particular."""
        for entry in self._entries:
            if entry.number >= number and subject in (None, about(entry.event) or subject):
                yield entry


def about(event: Event) -> str | None:
    """The partition that an event is about; the controller's events name topic and number separately."""
    partition = event.fields.get("partition")
    topic = event.fields.get("topic")
    return f"{topic}-{partition}" if topic is not None and partition is not None else partition
