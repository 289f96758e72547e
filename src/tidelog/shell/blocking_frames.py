"""Frames from a socket that blocks, for a request or two before anything else runs on it."""

from typing import Protocol


class Receiver(Protocol):
    """A socket, or a stream on one."""

    def recv(self, size: int, /) -> bytes: ...


def receive_frame(sock: Receiver) -> bytes:
    """The next frame without its length; ConnectionResetError if the connection ends within it."""
    return _receive(sock, int.from_bytes(_receive(sock, 4)))


def _receive(sock: Receiver, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise ConnectionResetError("connection closed within a response")
        data += part
    return data
