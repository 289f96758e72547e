"""What happened in a run: a digest of everything, and the last events as a readable transcript.

The digest covers every delivered input and every effect in order. Nothing goes into it that depends on memory
addresses or on the hash seed, so the same seed gives the same digest in every process.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tidelog.effects import FileSlice

TRANSCRIPT_EVENTS = 120
_SHOWN = 600


def plain(value: Any) -> Any:
    """The value as text that is the same in every process."""
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)}B:{sha256(value).hexdigest()[:12]}"
    if isinstance(value, FileSlice):
        return f"{value.file.path}[{value.position}+{value.length}]"
    if isinstance(value, set | frozenset):
        return sorted(str(plain(item)) for item in value)
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        named = ", ".join(f"{name}={plain(item)}" for name, item in zip(value._fields, value, strict=True))
        return f"{type(value).__name__}({named})"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if hasattr(value, "path"):
        return f"file {value.path}"
    return value if isinstance(value, str) else repr(value)


@dataclass(slots=True)
class Entry:
    """One line of the transcript. `step` counts delivered inputs, `mono` is the world's time in milliseconds."""

    step: int
    mono: float
    who: str
    what: str
    detail: str

    def __str__(self) -> str:
        detail = self.detail if len(self.detail) <= _SHOWN else self.detail[:_SHOWN] + " …"
        return f"{self.step:>7} {self.mono:>11.3f} ms  {self.who:<10} {self.what:<22} {detail}"


class Trace:
    def __init__(self) -> None:
        self.hash = sha256()
        self.last: deque[Entry] = deque(maxlen=TRANSCRIPT_EVENTS)
        self.kept: list[Entry] | None = None
        """All entries where someone wants the whole story; None keeps the last ones only."""
        self.step = 0
        self.counts: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"Trace({self.step} steps, {self.hash.hexdigest()[:16]})"

    def add(self, micros: int, who: str, what: str, detail: Any) -> None:
        text = str(plain(detail))
        self.hash.update(f"{micros} {who} {what} {text}\n".encode())
        self.counts[what] = self.counts.get(what, 0) + 1
        self.remark(micros, who, what, text)

    def remark(self, micros: int, who: str, what: str, text: str) -> None:
        """For the reader only: the digest does not know of it."""
        entry = Entry(self.step, micros / 1000, who, what, text)
        self.last.append(entry)
        if self.kept is not None:
            self.kept.append(entry)

    @property
    def digest(self) -> str:
        return self.hash.hexdigest()

    def transcript(self) -> str:
        return "\n".join(str(entry) for entry in self.last)
