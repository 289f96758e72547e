"""Frames from a socket that blocks, for a request or two before anything else runs on it."""

from typing import Protocol

MAX_BYTES = 16 * 1024 * 1024
_PIECE = 64 * 1024


class Receiver(Protocol):
    """A socket, or a stream on one."""

    def recv(self, size: int, /) -> bytes: ...


def receive_frame(sock: Receiver) -> bytes:
    """The next frame without its length; ConnectionResetError if the connection ends within it, or if its length is
    impossible."""
    length = int.from_bytes(_receive(sock, 4), signed=True)
    if not 0 <= length <= MAX_BYTES:
        raise ConnectionResetError(f"a response of {length} bytes; the limit is {MAX_BYTES}")
    return _receive(sock, length)


def _receive(sock: Receiver, count: int) -> bytes:
    """Memory grows with what arrives, not with what was announced."""
    data = bytearray()
    while len(data) < count:
        part = sock.recv(min(count - len(data), _PIECE))
        if not part:
            raise ConnectionResetError("connection closed within a response")
        data += part
    return bytes(data)
