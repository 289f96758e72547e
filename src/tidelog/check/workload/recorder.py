"""What the workers of a workload share: the recorder of the history, and what is known of each partition."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

from tidelog.check.history.operation import FAIL, INFO, INVOKE, OK, SEND, TXN, Header, Operation
from tidelog.check.history.text import end_line, header_line, operation_line


class Recorder:
    """Writes a history while it happens; the order of its lines is the order of time. Thread-safe. `outcomes` counts
    ends by (f, type), for progress displays."""

    def __init__(self, file: Path, header: Header) -> None:
        self.file = file
        self.header = header
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self._begun = time.monotonic_ns()
        self._lock = Lock()
        self._count = 0
        self._out = file.open("w", encoding="utf-8")
        self._out.write(header_line(header) + "\n")

    def __repr__(self) -> str:
        return f"Recorder({self.file}, {self._count} operations)"

    @property
    def seconds(self) -> float:
        """Seconds since the beginning of the history."""
        return (time.monotonic_ns() - self._begun) / 1e9

    def invoke(self, process: int, f: str, value: Any) -> None:
        self._write(process, INVOKE, f, value, ())

    def end(self, process: int, type_: str, f: str, value: Any, rebalanced: Iterable[int] = ()) -> None:
        assert type_ in (OK, FAIL, INFO)
        self._write(process, type_, f, value, rebalanced)

    def close(self) -> None:
        """Write the last line, without which a history counts as truncated."""
        with self._lock:
            if not self._out.closed:
                self._out.write(end_line(self._count) + "\n")
                self._out.close()

    def _write(self, process: int, type_: str, f: str, value: Any, rebalanced: Iterable[int]) -> None:
        with self._lock:
            moment = time.monotonic_ns() - self._begun
            operation = Operation(0, self._count, moment, process, type_, f, value, frozenset(rebalanced))
            self._out.write(operation_line(operation) + "\n")
            self._count += 1
            if type_ != INVOKE:
                self.outcomes[f, type_] += 1

    @property
    def acknowledged(self) -> int:
        """The number of calls that sent records and succeeded."""
        return self.outcomes[SEND, OK] + self.outcomes[TXN, OK]


class SharedState:
    """The next value of each key, and how far each is acknowledged and read. Thread-safe."""

    def __init__(self, keys: int) -> None:
        self._lock = Lock()
        self._values = [count() for _ in range(keys)]
        self._processes = count()
        self._acknowledged = [-1] * keys
        self._read = [-1] * keys

    def __repr__(self) -> str:
        return f"SharedState(acknowledged {self._acknowledged}, read {self._read})"

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
        """key → the offset after everything that is known to exist."""
        with self._lock:
            return {key: 1 + max(pair) for key, pair in enumerate(zip(self._acknowledged, self._read, strict=True))}

    @property
    def unread(self) -> list[int]:
        """Keys with acknowledged records that nobody has read."""
        with self._lock:
            return [key for key, offset in enumerate(self._acknowledged) if offset > self._read[key]]
