"""A TLS connection on a socket, for the broker's connections and for clients.

The TLS object works on memory, not on the socket: one system call then receives or sends many records. librdkafka
writes records of a few kilobytes, and OpenSSL on a socket would need two system calls for each of them.
"""

import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from socket import MSG_MORE, socket
from typing import Any, NoReturn

from tidelog.ports import Buffer

RECORD_BYTES = 16 * 1024
"""The maximum payload of a TLS record."""
RECEIVE_BYTES = 64 * 1024
SEND_BYTES = 64 * 1024
"""What one system call receives, and what is encrypted before it is sent. OpenSSL keeps that memory as long as the
connection lives (130 kB; with 128 and 256 KB it would be 370 kB), and larger ones are not faster."""
HANDSHAKE_BYTES = 16 * 1024
ANSWERS_BYTES = 64 * 1024
"""What TLS itself may owe a peer who does not read: each renegotiation and each change of keys is answered."""


class _Scratch(threading.local):
    """Where a thread receives what is then decrypted."""

    def __init__(self) -> None:
        self.space = memoryview(bytearray(RECEIVE_BYTES))


_scratch = _Scratch()


class TlsStream:
    """A TLS connection with the methods of a socket; raises BlockingIOError where a non-blocking socket would.

    What `send` has encrypted must leave before anything else is encrypted: while the socket is full, those bytes are
    `waiting`, and the caller keeps them until `flush` or another `send` reports them as sent.
    """

    def __init__(self, sock: socket, context: ssl.SSLContext, server_name: str | None) -> None:
        """The handshake has not begun; `server_name` is None on the server side. ValueError if it is not a host
        name."""
        self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )
        self._encrypted = memoryview(b"")
        """Taken from `_outgoing`, and not sent yet."""
        self._ended = False
        """Whether the peer has ended the stream."""
        self.waiting = 0
        self.fileno = sock.fileno
        self.close = sock.close
        self.setblocking = sock.setblocking
        self.getpeercert = self._tls.getpeercert
        self.version = self._tls.version

    def __repr__(self) -> str:
        return f"TlsStream({self._tls.version()}, {self.waiting} waiting)"

    def do_handshake(self) -> None:
        """Go on with the handshake. SSLWantReadError or SSLWantWriteError where it must wait for the socket, other
        SSLErrors where it fails."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send_handshake()
                self._receive_handshake()
            except ssl.SSLError:
                with suppress(OSError):
                    self._push()  # the alert that says why
                raise
            else:
                return self._send_handshake()

    def _send_handshake(self) -> None:
        if not self._push():
            raise ssl.SSLWantWriteError

    def _receive_handshake(self) -> None:
        space = _scratch.space[:HANDSHAKE_BYTES]
        try:
            count = self._sock.recv_into(space)
        except BlockingIOError:
            raise ssl.SSLWantReadError from None
        if count == 0:
            raise ConnectionResetError("the connection was closed")
        self._incoming.write(space[:count])

    def pending(self) -> bool:
        """Whether bytes have been received that are not decrypted or not read; the last of them may be incomplete."""
        return bool(self._incoming.pending or self._tls.pending())

    def recv_into(self, space: Buffer) -> int:
        """Fill the space as far as possible with at most one system call; 0 at the end."""
        view = memoryview(space)
        got = self._decrypt(view)
        if not got and not self._ended:
            count = self._sock.recv_into(_scratch.space)
            if count == 0:
                return 0
            self._incoming.write(_scratch.space[:count])
            got = self._decrypt(view)
            if not got and not self._ended:
                raise BlockingIOError  # a part of a record, or nothing for the application
        return got

    def _decrypt(self, view: memoryview) -> int:
        read: Any = self._tls.read  # typeshed has no other buffers than bytearrays
        incoming, size, got = self._incoming, len(view), 0
        try:
            while got < size and (incoming.pending or self._tls.pending()):
                count: int = read(size - got, view[got:])
                if not count:
                    self._ended = True
                    break
                got += count
        except ssl.SSLWantReadError:
            """The last record is incomplete."""
        finally:
            if self._outgoing.pending:
                self._answer()
        return got

    def _answer(self) -> None:
        """Send what TLS itself answers: alerts, and new keys."""
        if self._outgoing.pending > ANSWERS_BYTES:
            raise ConnectionResetError("the peer does not read what TLS answers")
        self._push()

    def send(self, data: Buffer, flags: int = 0) -> int:
        """Encrypt and send; return the number of bytes taken. With MSG_MORE a few may stay here until the next call."""
        if self.waiting:
            return self.flush() or _block()
        view = memoryview(data)
        write, taken, size = self._tls.write, 0, min(len(view), SEND_BYTES)
        while taken < size:
            taken += write(view[taken : min(taken + RECORD_BYTES, size)])
        if flags & MSG_MORE and self._outgoing.pending < RECORD_BYTES:
            return taken
        if self._push():
            return taken
        self.waiting = taken
        return _block()

    def sendmsg(self, buffers: Sequence[Buffer], _ancillary: tuple[()] = (), flags: int = 0) -> int:
        """Send the first buffers; small ones share a record."""
        joined = bytearray()
        for buffer in buffers:
            if len(joined) + len(buffer) > RECORD_BYTES:
                break
            joined += buffer
        return self.send(joined or buffers[0], flags)

    def flush(self) -> int:
        """Send the waiting bytes; return how many that were, or 0 while the socket is full."""
        if not self._push():
            return 0
        sent, self.waiting = self.waiting, 0
        return sent

    def _push(self) -> bool:
        """Send what is encrypted; return whether all of it has left."""
        try:
            while self._encrypted or self._outgoing.pending:
                if not self._encrypted:
                    self._encrypted = memoryview(self._outgoing.read())
                self._encrypted = self._encrypted[self._sock.send(self._encrypted) :]
        except BlockingIOError:
            return False
        return True

    # On a socket that blocks: the login of a client

    def sendall(self, data: Buffer) -> None:
        view = memoryview(data)
        while view:
            view = view[self.send(view) :]

    def recv(self, size: int) -> bytes:
        space = bytearray(size)
        while True:
            try:
                return bytes(space[: self.recv_into(space)])
            except BlockingIOError:
                """Only a part of a record has come."""


def _block() -> NoReturn:
    raise BlockingIOError
