"""A table with two views: the newest values for writers, and the committed values for readers.

Every change has the log offset of its record. The value before it is kept until the high watermark passes that offset.
"""

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Timeline(Generic[K, V]):
    """`newest` may be read freely; only `set` changes it. `_before` holds, for each key with uncommitted changes, the
    values before them, oldest first; the first one is therefore the committed value."""

    __slots__ = ("_before", "_changes", "newest")

    def __init__(self) -> None:
        self.newest: dict[K, V] = {}
        self._before: dict[K, deque[V | None]] = {}
        self._changes: deque[tuple[int, K]] = deque()

    def __repr__(self) -> str:
        return f"<Timeline {len(self.newest)} values, {len(self._changes)} changes to commit>"

    def set(self, key: K, value: V | None, offset: int) -> None:
        """Replay one change; None removes the key. Offsets never decrease."""
        assert not self._changes or self._changes[-1][0] <= offset
        self._before.setdefault(key, deque()).append(self.newest.get(key))
        self._changes.append((offset, key))
        if value is None:
            self.newest.pop(key, None)
        else:
            self.newest[key] = value

    def committed(self, key: K) -> V | None:
        before = self._before.get(key)
        return self.newest.get(key) if before is None else before[0]

    def committed_items(self) -> Iterator[tuple[K, V]]:
        for key, value in self.newest.items():
            if key not in self._before:
                yield key, value
        for key, before in self._before.items():
            if before[0] is not None:
                yield key, before[0]

    def commit(self, high_watermark: int) -> None:
        """Every change with an offset below the high watermark is committed."""
        while self._changes and self._changes[0][0] < high_watermark:
            _, key = self._changes.popleft()
            before = self._before[key]
            before.popleft()
            if not before:
                del self._before[key]

    @property
    def is_empty(self) -> bool:
        """Whether both views are empty."""
        return not self.newest and not self._before
