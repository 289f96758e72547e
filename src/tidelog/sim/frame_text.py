"""Frames made readable: what brokers and clients say to each other, for transcripts that somebody wants to read.

It looks at what is sent, where whole frames are known, and pairs answers with requests by connection and correlation.
"""

from collections.abc import Iterator
from typing import Any

from tidelog.errors import ApiError
from tidelog.sim.network import End, Link
from tidelog.sim.trace import mark
from tidelog.wire import codec
from tidelog.wire.records import batches

PREFIX = 4


class FrameText:
    def __init__(self) -> None:
        self._asked: dict[tuple[Link, int], tuple[int, int]] = {}

    def __repr__(self) -> str:
        return f"FrameText({len(self._asked)} unanswered)"

    def of(self, end: End, data: bytes) -> Iterator[str]:
        """Each frame in what this end sends."""
        position = 0
        while position < len(data):
            length = int.from_bytes(data[position : position + PREFIX], "big")
            frame = memoryview(data)[position + PREFIX : position + PREFIX + length]
            position += PREFIX + length
            yield f"{end.party.name} → {end.other.party.name} {self._frame(end, frame)}"

    def _frame(self, end: End, frame: memoryview) -> str:
        if not end.listener:
            header, request = codec.decode_request(frame)
            self._asked[end.link, header.correlation_id] = (header.api_key, header.api_version)
            return f"#{header.correlation_id} {shown(request)}"
        correlation_id = int.from_bytes(frame[:4], "big")
        if (end.link, correlation_id) not in self._asked:
            return f"#{correlation_id} (asked before anybody listened)"
        key, version = self._asked.pop((end.link, correlation_id))
        _, response = codec.decode_response(key, version, frame)
        return f"#{correlation_id} {shown(response)}"


def shown(value: Any) -> str:
    """A message as text, without what has its default or is empty."""
    if isinstance(value, bytes | memoryview):
        return batches_shown(value)
    if isinstance(value, list):
        return f"[{', '.join(shown(item) for item in value)}]"
    if not hasattr(value, "__fields__"):
        return repr(value)
    plain = type(value)()
    parts = []
    for name in type(value).__slots__:
        item = getattr(value, name)
        if item != getattr(plain, name) and item not in (None, [], b""):
            parts.append(f"{name}={shown(item)}")
    return f"{type(value).__name__}({', '.join(parts)})"


def batches_shown(value: bytes | memoryview) -> str:
    if len(value) == 16 or len(value) < 61:
        return bytes(value).hex()
    try:
        return f"<{' '.join([f'{b.base_offset}+{b.last_offset_delta + 1}@{b.leader_epoch}' for b in batches(value)])}>"
    except ApiError:  # other bytes than records
        return mark(value)
