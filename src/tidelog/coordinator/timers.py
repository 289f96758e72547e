"""Deadlines by key, with cancellation and cheap postponement.

A heartbeat postpones a deadline thousands of times for each time that it is reached. A later deadline is therefore only
stored; the heap is corrected when the old one comes up.
"""

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

Action = TypeVar("Action")

_Key = tuple[Hashable, Hashable]


class _Entry(Generic[Action]):
    """`queued` is the deadline under which the heap holds the key. It is never later than `deadline`."""

    __slots__ = ("action", "deadline", "queued")

    def __init__(self, deadline: int, action: Action) -> None:
        self.deadline = deadline
        self.queued = deadline
        self.action = action


class Timers(Generic[Action]):
    """Actions with deadlines, by key; keys belong to groups that are cancelled together. Deadlines are monotonic
    milliseconds."""

    def __init__(self) -> None:
        self._entries: dict[_Key, _Entry[Action]] = {}
        self._heap: list[tuple[int, int, _Key, _Entry[Action]]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<Timers {len(self)} set, next at {self.next_deadline}>"

    def set(self, group: Hashable, key: Hashable, deadline: int, action: Action) -> None:
        """Set the key's deadline and action. Replaces earlier ones."""
        full = (group, key)
        entry = self._entries.get(full)
        if entry is not None and deadline >= entry.queued:
            entry.deadline, entry.action = deadline, action
            return
        entry = self._entries[full] = _Entry(deadline, action)
        self._queue(full, entry)

    def cancel(self, group: Hashable, key: Hashable) -> None:
        self._entries.pop((group, key), None)

    def cancel_group(self, group: Hashable) -> None:
        """Cancel every key of the group; takes time proportional to the number of all keys."""
        for full in [full for full in self._entries if full[0] == group]:
            del self._entries[full]

    def deadline(self, group: Hashable, key: Hashable) -> int | None:
        """The key's deadline; None if it is not set."""
        entry = self._entries.get((group, key))
        return None if entry is None else entry.deadline

    @property
    def next_deadline(self) -> int | None:
        """A time before which nothing is due; the earliest deadline is not before it."""
        heap, entries = self._heap, self._entries
        while heap and entries.get(heap[0][2]) is not heap[0][3]:
            heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: int) -> list[Action]:
        """Remove and return the actions whose deadline is not after `now`, earliest first."""
        found: list[tuple[int, Action]] = []
        while self._heap and self._heap[0][0] <= now:
            _, _, full, entry = heappop(self._heap)
            if not self._is_current(full, entry):
                continue
            if entry.deadline > now:
                entry.queued = entry.deadline
                self._queue(full, entry)
                continue
            del self._entries[full]
            found.append((entry.deadline, entry.action))
        return [action for _, action in sorted(found, key=lambda pair: pair[0])]

    def _queue(self, full: _Key, entry: _Entry[Action]) -> None:
        heappush(self._heap, (entry.queued, next(self._order), full, entry))

    def _is_current(self, full: _Key, entry: _Entry[Action]) -> bool:
        return self._entries.get(full) is entry
