"""Sends drawn frames to a live cluster, on a few connections, while a canary produces and fetches on its own.

A small valid request follows each frame. Its answer shows that the connection has survived the frame; otherwise the
frame has closed it, or waits, and the frames after it are sent again on a new connection.
"""

import select
import socket
import struct
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tidelog.check.fuzz.canary import Canary
from tidelog.check.fuzz.frames import BLOCK, Frame, framed, frames
from tidelog.client.options import ClientOptions
from tidelog.errors import ProtocolViolation
from tidelog.shell.client_security import Security, security_of
from tidelog.shell.client_sockets import addresses
from tidelog.wire.frames import FrameReader

CONNECTIONS = 8
STALLED_S = 1.0
"""A frame that has not been answered for so long waits for something, or for more bytes."""
CONNECT_S = 30.0
PROBE_IDS = 0x5EA70000
_RECEIVE_BYTES = 256 * 1024
_LARGEST_ANSWER = 2**31 - 1
_SWITCH_INTERVAL_S = 0.0005


def _probe(number: int) -> bytes:
    """ApiVersions, the request that every connection may send."""
    return framed(struct.pack(">hhih", 18, 0, PROBE_IDS + number, -1))


@dataclass(slots=True)
class Tally:
    """What became of the frames."""

    answered: int = 0
    waited: int = 0
    closed: Counter[str] = field(default_factory=Counter)
    """By how the frame was changed."""

    @property
    def sent(self) -> int:
        return self.answered + self.waited + self.closed.total()


class Sender:
    """One connection after the other; `pending` are the frames sent on it that have not survived yet."""

    def __init__(self, address: tuple[str, int], security: Security | None, tally: Tally) -> None:
        self.pending: deque[tuple[int, Frame]] = deque()
        self._address = address
        self._security = security
        self._tally = tally
        self._socket: Any = None
        self._reader = FrameReader(_LARGEST_ANSWER)
        self._moved_at = 0.0

    def fileno(self) -> int:
        found: int = self._socket.fileno()
        return found

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, some: list[Frame]) -> None:
        self.pending = deque(enumerate(some))
        self._send_pending()

    def _send_pending(self) -> None:
        """OSError if no connection can be opened."""
        self._moved_at = time.monotonic()
        data = b"".join(frame.data + _probe(number) for number, frame in self.pending)
        if self._socket is None:
            self._connect()
        try:
            self._socket.sendall(data)
        except OSError:
            self._lost()

    def _connect(self) -> None:
        sock = socket.create_connection(self._address, CONNECT_S)
        self._reader = FrameReader(_LARGEST_ANSWER)
        self._socket = sock if self._security is None else self._security.log_in(sock, self._address[0])

    def receive(self) -> None:
        """Read what has come, once the socket is readable."""
        try:
            while self.pending:
                data = self._socket.recv(_RECEIVE_BYTES)
                if not data:
                    self._lost()
                    return
                for answer in self._reader.feed(data):
                    self._answered(int.from_bytes(answer[:4]) - PROBE_IDS)
                if not getattr(self._socket, "pending", bool)():
                    return
        except (OSError, ProtocolViolation):
            self._lost()

    def _answered(self, number: int) -> None:
        while self.pending and self.pending[0][0] <= number < BLOCK:
            self.pending.popleft()
            self._tally.answered += 1
            self._moved_at = time.monotonic()

    def _lost(self) -> None:
        """The broker has closed the connection, because of the first frame that has not survived."""
        self.close()
        if self.pending:
            self._tally.closed[self.pending.popleft()[1].change] += 1
        if self.pending:
            self._send_pending()

    def give_up_waiting(self) -> None:
        """Leave a connection whose first frame is neither answered nor refused."""
        if self.pending and time.monotonic() - self._moved_at > STALLED_S:
            self.close()
            self.pending.popleft()
            self._tally.waited += 1
            if self.pending:
                self._send_pending()


def run(
    bootstrap: str, client: Mapping[str, Any], seed: int, count: int, canary: Canary, show: Callable[[Tally], None]
) -> Tally:
    """Send the frames; ends early if the canary fails. OSError if a broker accepts no connection."""
    tally = Tally()
    security = security_of(ClientOptions(**client))
    known = addresses(bootstrap)
    senders = [Sender(known[number % len(known)], security, tally) for number in range(CONNECTIONS)]
    source = frames(seed, count)
    try:
        with _responsive_threads():
            while canary.failure is None and _turn(senders, source):
                show(tally)
    finally:
        for sender in senders:
            sender.close()
    return tally


def _turn(senders: list[Sender], source: Iterator[Frame]) -> bool:
    """Whether anything is left to do."""
    for sender in senders:
        if not sender.pending and (some := list(islice(source, BLOCK))):
            sender.send(some)
    busy = [sender for sender in senders if sender.pending]
    for sender in select.select(busy, [], [], STALLED_S / 4)[0] if busy else ():
        sender.receive()
    for sender in busy:
        sender.give_up_waiting()
    return bool(busy)


@contextmanager
def _responsive_threads() -> Iterator[None]:
    """The canary must not wait for this thread, or it would measure it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
