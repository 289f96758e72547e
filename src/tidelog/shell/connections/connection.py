"""One connection of the event loop: its socket, its frame reader, and its unsent data.

`Outgoing` holds the unsent data: bytes, and slices of files that go from the page cache to the socket. Parts are sent
in order. Small neighbours share one system call; a small slice is copied into it, a large one is sent by sendfile. A
slice that is not in the page cache would stall the loop: RWF_NOWAIT detects it, and the owner reads it on a thread
(`cold`) before sending continues.
"""

import errno
import os
import threading
from asyncio import TimerHandle
from collections import deque
from collections.abc import Sequence
from socket import MSG_DONTWAIT, MSG_MORE, socket
from typing import Any

from tidelog.effects import FileSlice, Part
from tidelog.ports import Buffer
from tidelog.shell.disk import OsFile
from tidelog.shell.tls_stream import SEND_BYTES, TlsStream
from tidelog.wire.frames import FrameReader

READ_BELOW = 16 * 1024
JOIN_BELOW = 64 * 1024
PARTS_A_CALL = 256
SLICE_A_TURN = 4 * 1024 * 1024
ENCRYPTED_A_TURN = 1024 * 1024
"""The event loop encrypts this in less than a millisecond; a slice costs it much less."""
_PROBE_EVERY = 128 * 1024

UNSENT_BOUND = 4 * 1024 * 1024
"""Unsent bytes above which the peer is no longer read from; reading resumes below half of it."""


class ShortSlice(Exception):
    """A file ended before its slice did, so the announced bytes cannot be sent."""


class _Pieces(threading.local):
    """Where an event loop reads the pieces of slices that it encrypts."""

    def __init__(self) -> None:
        self.space = memoryview(bytearray(SEND_BYTES))


_pieces = _Pieces()


class Outgoing:
    """The unsent parts of one connection. `unsent` counts their bytes."""

    __slots__ = ("_cached", "_encrypted", "_parts", "_socket", "cold", "unsent")

    probing = True
    """Whether the file system supports RWF_NOWAIT; learned with the first slice."""

    def __init__(self, sock: Any, *, encrypted: bool = False) -> None:
        """`sock` is a socket, or with `encrypted` a stream with its calls: then slices are read and sent as bytes."""
        self._socket = sock
        self._encrypted = encrypted
        self._parts: deque[Part] = deque()
        self._cached = False  # whether the first slice is known to be in the page cache
        self.unsent = 0
        self.cold: FileSlice | None = None

    def __repr__(self) -> str:
        return f"Outgoing({self.unsent} bytes in {len(self._parts)} parts{', cold' if self.cold else ''})"

    def put(self, parts: Sequence[Part]) -> None:
        for part in parts:
            length = part.length if isinstance(part, FileSlice) else len(part)
            if length:
                self.unsent += length
                self._parts.append(part)

    def cold_loaded(self) -> None:
        """The cold slice has been read on a thread."""
        self.cold = None
        self._cached = True

    def flush(self) -> bool:
        """Send as much as the socket takes; return whether everything is sent. After OSError or ShortSlice the
        connection must be closed."""
        parts = self._parts
        turn = ENCRYPTED_A_TURN if self._encrypted else SLICE_A_TURN
        if self._encrypted and not self._flush_encrypted():
            return False
        while parts:
            if self.cold is not None or turn <= 0:
                return False
            before = self.unsent
            if not (self._send_slice() if self._starts_with_long_slice() else self._send_bytes()):
                return False
            turn -= before - self.unsent
        return True

    def _flush_encrypted(self) -> bool:
        """Send what TLS has encrypted before; whether more can follow."""
        if self._socket.waiting:
            self._sent(sent := self._socket.flush(), sent)
        return not self._socket.waiting

    def _starts_with_long_slice(self) -> bool:
        first = self._parts[0]
        return isinstance(first, FileSlice) and first.length >= READ_BELOW

    def _send_bytes(self) -> bool:
        """Send up to the next large slice; False if the socket or a cold slice stops it."""
        parts = self._parts
        first = parts[0]
        if len(parts) == 1 and not isinstance(first, FileSlice):
            return self._sent(self._send(first), len(first))
        buffers: list[Buffer] = []
        size = 0
        for part in parts:
            data = self._small_slice(part) if isinstance(part, FileSlice) else part
            if data is None or len(buffers) == PARTS_A_CALL:
                break
            if self._encrypted and buffers and size + len(data) > JOIN_BELOW:
                break  # there is no call that encrypts many buffers, and joining large ones copies them
            buffers.append(data)
            size += len(data)
        if not buffers:
            return False
        flags = MSG_MORE if len(buffers) < len(parts) else 0
        if len(buffers) == 1:
            return self._sent(self._send(buffers[0], flags), size)
        if size <= JOIN_BELOW:
            return self._sent(self._send(b"".join(buffers), flags), size)
        return self._sent(self._send_many(buffers, flags), size)

    def _send(self, data: Buffer, flags: int = 0) -> int:
        try:
            return int(self._socket.send(data, flags))
        except BlockingIOError:
            return 0

    def _send_many(self, buffers: list[Buffer], flags: int) -> int:
        try:
            return int(self._socket.sendmsg(buffers, (), flags | MSG_DONTWAIT))
        except BlockingIOError:
            return 0

    def _sent(self, count: int, requested: int) -> bool:
        """Drop `count` bytes that were sent."""
        parts = self._parts
        self.unsent -= count
        left = count
        while left:
            first = parts[0]
            length = first.length if isinstance(first, FileSlice) else len(first)
            if length > left:
                parts[0] = _rest(first, left)
                break
            parts.popleft()
            self._cached = False
            left -= length
        return count == requested

    def _small_slice(self, part: FileSlice) -> bytes | bytearray | None:
        """The slice's bytes; None if it is large, or cold (reported in `cold` only if it is first in line)."""
        if part.length >= READ_BELOW:
            return None
        is_first = part is self._parts[0]
        if Outgoing.probing and not (is_first and self._cached):
            data = bytearray(part.length)
            count = _read_cached(part, data, part.position)
            if count == part.length:
                return data
            if count < 0:
                self.cold = part if is_first else None
                return None
        data_read = part.file.read(part.position, part.length)
        if len(data_read) < part.length:
            raise ShortSlice(f"{part.file.path} ended before {part.position + part.length}")
        return data_read

    def _send_slice(self) -> bool:
        part = self._parts[0]
        assert isinstance(part, FileSlice)
        assert isinstance(part.file, OsFile)
        if self._encrypted:
            return self._send_read(part)
        if not self._cached and not _is_cached(part):
            self.cold = part
            return False
        self._cached = True
        try:
            count = os.sendfile(self._socket.fileno(), part.file.fd, part.position, part.length)
        except BlockingIOError:
            return False
        if count == 0:
            raise ShortSlice(f"{part.file.path} ended before {part.position + part.length}")
        whole = self._sent(count, part.length)
        self._cached = not whole
        return whole

    def _send_read(self, part: FileSlice) -> bool:
        """Encrypt the next piece of the slice; whether more can follow."""
        length = min(part.length, SEND_BYTES)
        data: Buffer = b""
        if Outgoing.probing and not self._cached:
            count = _read_cached(part, _pieces.space[:length], part.position)
            if count < 0:
                self.cold = part
                return False
            data = _pieces.space[:count]
        data = data or part.file.read(part.position, length)
        if not data:
            raise ShortSlice(f"{part.file.path} ended before {part.position + part.length}")
        self._cached = False
        return self._sent(self._send(data), len(data))


def _is_cached(part: FileSlice) -> bool:
    """Whether the page cache holds the slice, judged by a few probes."""
    if not Outgoing.probing:
        return True
    byte = bytearray(1)
    end = part.position + part.length
    return all(_read_cached(part, byte, at) >= 0 for at in (*range(part.position, end, _PROBE_EVERY), end - 1))


def _read_cached(part: FileSlice, into: bytearray | memoryview, position: int) -> int:
    """Read without blocking on the disk; -1 if the bytes are not cached."""
    assert isinstance(part.file, OsFile)
    try:
        return os.preadv(part.file.fd, [into], position, os.RWF_NOWAIT)
    except BlockingIOError:
        return -1
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        Outgoing.probing = False
        return 0


def _rest(part: Part, sent: int) -> Part:
    if isinstance(part, FileSlice):
        return FileSlice(part.file, part.position + sent, part.length - sent)
    return memoryview(part)[sent:]


def load_slice(part: FileSlice) -> None:
    """Read the slice into the page cache, on a thread. An error is raised again when the slice is sent."""
    position, end = part.position, part.position + part.length
    while position < end:
        count = len(part.file.read(position, min(1 << 20, end - position)))
        if count == 0:
            return
        position += count


class Connection:
    """`number` is positive for accepted connections, negative for those that the node opened to brokers."""

    __slots__ = (
        "began",
        "closing",
        "congested",
        "delivery_scheduled",
        "encrypted",
        "fd",
        "held",
        "host",
        "is_limited",
        "last_used",
        "listener",
        "number",
        "outgoing",
        "paused",
        "reader",
        "reading",
        "retained",
        "sock",
        "starved",
        "unauthenticated",
        "writing",
    )

    def __init__(self, number: int, sock: socket | TlsStream, listener: str, host: str, reader: FrameReader) -> None:
        self.number = number
        self.sock: Any = sock
        self.encrypted = isinstance(sock, TlsStream)
        self.fd = sock.fileno()
        self.listener = listener
        self.host = host
        self.reader = reader
        self.outgoing = Outgoing(sock, encrypted=self.encrypted)
        self.is_limited = False  # whether the limits of `arrivals.py` apply: not to brokers
        self.retained = 0  # bytes of its requests that the node keeps
        self.last_used = 0  # monotonic ms of the last read, for connections.max.idle.ms
        self.unauthenticated: TimerHandle | None = None  # until a client of a SASL listener has logged in
        # Whether the loop watches the socket. The loop must never watch a closed descriptor, whose number is reused.
        self.reading = False
        self.writing = False
        self.began = 0  # monotonic ms of the first bytes of the request that is incomplete; 0 between requests
        # Independent reasons not to read: the node muted the peer, the peer does not read, its request needs more
        # memory than there is, we are closing.
        self.paused = False
        self.congested = False
        self.starved = False
        self.closing = False
        self.held: list[bytes] = []  # frames that wait for a later turn: beyond FRAMES_PER_TURN, or put back
        self.delivery_scheduled = False  # whether a callback will deliver the next held frames

    def __repr__(self) -> str:
        state = "".join(f", {word}" for word in ("closing", "congested", "paused", "starved") if getattr(self, word))
        return (
            f"Connection({self.number} {self.listener or 'outbound'} {self.host}{state}, {self.outgoing.unsent} unsent)"
        )

    def update_congestion(self) -> None:
        self.congested = self.outgoing.unsent > (UNSENT_BOUND // 2 if self.congested else UNSENT_BOUND)

    @property
    def may_read(self) -> bool:
        return not (self.paused or self.congested or self.starved or self.closing or self.held)

    @property
    def may_deliver_held(self) -> bool:
        """Whether held frames are due and their delivery is not scheduled yet."""
        return bool(self.held) and not (self.paused or self.congested or self.closing or self.delivery_scheduled)

    @property
    def may_flush(self) -> bool:
        """Whether there is unsent data that neither a writer nor a thread will send."""
        return self.outgoing.unsent > 0 and not self.writing and self.outgoing.cold is None
