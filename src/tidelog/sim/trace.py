"""The record of a run: a digest of all inputs and effects, and the last of them as a readable transcript.

The digest covers every delivered input and every effect, in order. Nothing in it depends on memory addresses or on the
hash seed, so the same seed gives the same digest in every process. Most of it is traffic on connections, which is
digested by length and checksum; text is made only when somebody reads it. `FrameText` turns frames into text.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple
from zlib import crc32

from tidelog.effects import FileSlice
from tidelog.errors import ApiError
from tidelog.ports import Buffer
from tidelog.sim.network import End, Link
from tidelog.wire import codec
from tidelog.wire.records import batches

TRANSCRIPT_EVENTS = 120
_SHOWN = 600
_LINES = 1_000
"""Lines that are hashed at once."""

_FORMATTERS: dict[type, Callable[[Any], Any]] = {str: str, **dict.fromkeys((int, bool, float, type(None)), repr)}
"""The formatter of each type, determined once."""

PREFIX = 4


def plain(value: Any) -> Any:
    """Return the value as text that is the same in every process."""
    kind = type(value)
    return (_FORMATTERS.get(kind) or _formatter(kind))(value)


def _formatter(kind: type) -> Callable[[Any], Any]:
    how: Callable[[Any], Any]
    if issubclass(kind, bytes | bytearray | memoryview):
        how = mark
    elif issubclass(kind, FileSlice):
        how = _slice
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        how = partial(_fields, f"{kind.__name__}({', '.join(f'{name}={{}}' for name in kind._fields)})".format)
    elif issubclass(kind, set | frozenset):
        how = _unordered
    elif issubclass(kind, Mapping):
        how = _mapping
    elif issubclass(kind, Sequence) and not issubclass(kind, str):
        how = _sequence
    else:
        how = str if issubclass(kind, str) else _other
    return _FORMATTERS.setdefault(kind, how)


def _fields(form: Callable[..., str], value: tuple[Any, ...]) -> str:
    return form(*[(_FORMATTERS.get(type(item)) or _formatter(type(item)))(item) for item in value])


def _slice(value: FileSlice) -> str:
    return f"{value.file.path}[{value.position}+{value.length}]"


def _sequence(value: Sequence[Any]) -> list[Any]:
    return [(_FORMATTERS.get(type(item)) or _formatter(type(item)))(item) for item in value]


def _unordered(value: Iterable[Any]) -> list[str]:
    return sorted([str(plain(item)) for item in value])


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(plain(key)): plain(item) for key, item in value.items()}


def _other(value: Any) -> str:
    return f"file {value.path}" if hasattr(value, "path") else repr(value)


def mark(data: Buffer) -> str:
    """Return the length and checksum of the bytes."""
    return f"{len(data)}B:{crc32(data):08x}"


class TraceEntry(NamedTuple):
    """One line of the transcript. `step` counts delivered inputs, `micros` is the world's time."""

    step: int
    micros: int
    who: str
    what: str
    detail: str

    def __str__(self) -> str:
        detail = self.detail if len(self.detail) <= _SHOWN else self.detail[:_SHOWN] + " …"
        return f"{self.step:>7} {self.micros / 1000:>11.3f} ms  {self.who:<10} {self.what:<22} {detail}"


class Trace:
    def __init__(self) -> None:
        self.step = 0
        self._last: deque[tuple[int, int, str, str, str]] = deque(maxlen=TRANSCRIPT_EVENTS)
        """Entries, formatted when they are read."""
        self._hash = sha256()
        self._lines: list[str] = []

    def __repr__(self) -> str:
        return f"Trace({self.step} steps, {self.digest[:16]})"

    def keep_all(self) -> None:
        """Keep all entries, not only the last ones."""
        self._last = deque(self._last)

    @property
    def entries(self) -> list[TraceEntry]:
        """The last entries, or all."""
        return [TraceEntry(*entry) for entry in self._last]

    def traffic(self, micros: int, who: str, what: str, connection: int, buffers: Sequence[Buffer]) -> None:
        """Record bytes that were sent or received on a connection, nearly always in one piece."""
        data = buffers[0]
        text = f"#{connection} {len(data)}B:{crc32(data):08x}"
        if len(buffers) > 1:
            text = f"#{connection} {' '.join(map(mark, buffers))}"
        self.line(micros, who, what, text)

    def line(self, micros: int, who: str, what: str, text: str) -> None:
        self._lines.append(f"{micros} {who} {what} {text}\n")
        self._last.append((self.step, micros, who, what, text))
        if len(self._lines) >= _LINES:
            self._digest_lines()

    def remark(self, micros: int, who: str, what: str, text: str) -> None:
        """Add a line for readers only; the digest does not include it."""
        self._last.append((self.step, micros, who, what, text))

    def _digest_lines(self) -> None:
        self._hash.update("".join(self._lines).encode())
        self._lines.clear()

    @property
    def digest(self) -> str:
        self._digest_lines()
        return self._hash.hexdigest()

    def transcript(self) -> str:
        return "\n".join(map(str, self.entries[-TRANSCRIPT_EVENTS:]))


class FrameText:
    def __init__(self) -> None:
        self._pending: dict[tuple[Link, int], tuple[int, int]] = {}

    def __repr__(self) -> str:
        return f"FrameText({len(self._pending)} unanswered)"

    def of(self, end: End, data: bytes) -> Iterator[str]:
        """Yield the text of each frame in what this end sends."""
        position = 0
        while position < len(data):
            length = int.from_bytes(data[position : position + PREFIX], "big")
            frame = memoryview(data)[position + PREFIX : position + PREFIX + length]
            position += PREFIX + length
            yield f"{end.party.name} → {end.other.party.name} {self._frame(end, frame)}"

    def _frame(self, end: End, frame: memoryview) -> str:
        if not end.listener:
            header, request = codec.decode_request(frame)
            self._pending[end.link, header.correlation_id] = (header.api_key, header.api_version)
            return f"#{header.correlation_id} {message_text(request)}"
        correlation_id = int.from_bytes(frame[:4], "big")
        if (end.link, correlation_id) not in self._pending:
            return f"#{correlation_id} (requested before the recording began)"
        key, version = self._pending.pop((end.link, correlation_id))
        _, response = codec.decode_response(key, version, frame)
        return f"#{correlation_id} {message_text(response)}"


def message_text(value: Any) -> str:
    """Return a message as text, without fields that are empty or have their defaults."""
    if isinstance(value, bytes | memoryview):
        return records_text(value)
    if isinstance(value, list):
        return f"[{', '.join(message_text(item) for item in value)}]"
    if not hasattr(value, "__fields__"):
        return repr(value)
    plain = type(value)()
    parts = []
    for name in type(value).__slots__:
        item = getattr(value, name)
        if item != getattr(plain, name) and item not in (None, [], b""):
            parts.append(f"{name}={message_text(item)}")
    return f"{type(value).__name__}({', '.join(parts)})"


def records_text(value: bytes | memoryview) -> str:
    if len(value) == 16 or len(value) < 61:
        return bytes(value).hex()
    try:
        return f"<{' '.join([f'{b.base_offset}+{b.last_offset_delta + 1}@{b.leader_epoch}' for b in batches(value)])}>"
    except ApiError:  # other bytes than records
        return mark(value)
