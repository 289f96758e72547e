"""The last events of this broker, bounded in number, for later diagnosis; and how many of a kind are logged at all."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.effects import Event
from tidelog.model import Time

KEPT = 4096
"""Events; at some hundred bytes each this stays below a megabyte."""
LINES_OF_ONE = 20
LINES_OF_ALL = 200
"""In one second."""


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


class LineLimit:
    """How many lines of one kind are written: clients cause them, as often as they like. Each client has a share of its
    own, so that one that floods the log hides no other's lines, and all together have a limit, which bounds the memory
    as well. `omitted` counts the lines since the last one that was written."""

    __slots__ = ("_lines", "_since", "_total", "omitted")

    def __init__(self) -> None:
        self._since: int | None = None
        self._total = 0
        self._lines: dict[str, int] = {}
        self.omitted = 0

    def __repr__(self) -> str:
        return f"<LineLimit {self._total} lines by {len(self._lines)}, {self.omitted} omitted>"

    def allows(self, whose: str, now_ms: int) -> bool:
        """Whether to write a line that this client has caused."""
        if self._since is None or now_ms - self._since >= 1000:
            self._since, self._total, self._lines = now_ms, 0, {}
        written = self._lines.get(whose, 0)
        if written >= LINES_OF_ONE or self._total >= LINES_OF_ALL:
            self.omitted += 1
            return False
        self._lines[whose] = written + 1
        self._total += 1
        return True

    def note_omitted(self) -> dict[str, int]:
        """The field that says so in the next line; none if no line was omitted."""
        omitted, self.omitted = self.omitted, 0
        return {"omitted": omitted} if omitted else {}
