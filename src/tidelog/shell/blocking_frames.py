"""Frames from a socket that blocks, for a request or two before anything else runs on it."""

import socket


def receive_frame(sock: socket.socket) -> bytes:
    """The next frame without its length; ConnectionResetError if the connection ends within it."""
    return _receive(sock, int.from_bytes(_receive(sock, 4)))


def _receive(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise ConnectionResetError("connection closed within a response")
        data += part
    return data
