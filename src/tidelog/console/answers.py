"""What a route may answer besides JSON: a stream of events, or a file."""

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

KEEP_ALIVE = b": \n\n"


async def begun(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same pieces, once the first is there: what fails before it can still be answered with a status."""
    first = await anext(content, b"")

    async def whole() -> AsyncIterator[bytes]:
        yield first
        async for piece in content:
            yield piece

    return whole()


class Events(NamedTuple):
    """Server-sent events."""

    content: AsyncIterator[bytes]


class File(NamedTuple):
    """A download, in pieces."""

    content: AsyncIterator[bytes]
    name: str
    media_type: str = "application/octet-stream"


def event(kind: str, data: Any) -> bytes:
    """One server-sent event; JSON has no line ends of its own."""
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
