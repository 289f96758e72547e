"""A TLS connection on a non-blocking socket, for the broker's connections and for clients."""

import ssl
from collections.abc import Sequence

from tidelog.ports import Buffer

RECORD_BYTES = 16 * 1024
"""The maximum payload of a TLS record."""


class TlsStream:
    """A TLS connection with the methods of a non-blocking socket; raises BlockingIOError."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        self._refused = b""  # the record that did not fit: OpenSSL requires a retry with the same bytes
        self.fileno = sock.fileno
        self.close = sock.close
        self.pending = sock.pending

    def __repr__(self) -> str:
        return f"TlsStream({self._sock.version()})"

    def recv_into(self, space: Buffer) -> int:
        try:
            return self._sock.recv_into(space)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def send(self, data: Buffer, _flags: int = 0) -> int:
        """Send records one by one; return the number of bytes taken."""
        sent = 0
        view = memoryview(data)
        while sent < len(view):
            piece = self._refused or view[sent : sent + RECORD_BYTES]
            try:
                sent += self._sock.send(piece)
                self._refused = b""
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                self._refused = bytes(piece)
                if not sent:
                    raise BlockingIOError from None
                break
        return sent

    def sendmsg(self, buffers: Sequence[Buffer], _ancillary: tuple[()] = (), _flags: int = 0) -> int:
        return self.send(buffers[0])
