"""Requests on a socket that blocks, one at a time: logins, and questions to nodes that no client follows."""

from typing import Any, Protocol

from tidelog.effects import FileSlice
from tidelog.wire.codec import decode_response, encode_request

MAX_BYTES = 16 * 1024 * 1024
_PIECE = 64 * 1024


class Receiver(Protocol):
    """A socket, or a stream on one."""

    def recv(self, size: int, /) -> bytes: ...


class Stream(Receiver, Protocol):
    def sendall(self, data: bytes, /) -> None: ...


def exchange(stream: Stream, key: int, version: int, request: Any, client_id: str) -> Any:
    """The response to a request, which names no files. OSError if the connection fails, ProtocolViolation if the
    response cannot be read."""
    parts = encode_request(key, version, 0, client_id, request)
    stream.sendall(b"".join(part for part in parts if not isinstance(part, FileSlice)))
    return decode_response(key, version, memoryview(receive_frame(stream)))[1]


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
