"""What all workers of a workload know together: the next value of each key, how far it was acknowledged and read."""

from collections.abc import Mapping
from itertools import count
from threading import Lock


class Knowledge:
    """Safe for many threads."""

    def __init__(self, keys: int) -> None:
        self._lock = Lock()
        self._values = [count() for _ in range(keys)]
        self._processes = count()
        self._acknowledged = [-1] * keys
        self._read = [-1] * keys

    def __repr__(self) -> str:
        return f"Knowledge(acknowledged {self._acknowledged}, read {self._read})"

    def new_process(self) -> int:
        with self._lock:
            return next(self._processes)

    def new_value(self, key: int) -> int:
        with self._lock:
            return next(self._values[key])

    def acknowledged(self, key: int, offset: int) -> None:
        with self._lock:
            self._acknowledged[key] = max(self._acknowledged[key], offset)

    def read(self, key: int, offset: int) -> None:
        with self._lock:
            self._read[key] = max(self._read[key], offset)

    @property
    def ends(self) -> Mapping[int, int]:
        """key → the offset behind everything that is known to be there."""
        with self._lock:
            return {key: 1 + max(pair) for key, pair in enumerate(zip(self._acknowledged, self._read, strict=True))}

    @property
    def unread(self) -> list[int]:
        """Keys with acknowledged records that nobody has read."""
        with self._lock:
            return [key for key, offset in enumerate(self._acknowledged) if offset > self._read[key]]
