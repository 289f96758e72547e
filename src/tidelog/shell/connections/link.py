"""One connection of the event loop: its socket, its reader of frames, and what is not sent yet."""

from socket import socket
from typing import Any

from tidelog.shell.connections.outgoing import Outgoing
from tidelog.shell.connections.tls import TlsStream
from tidelog.wire.frames import FrameReader

UNSENT_BOUND = 4 * 1024 * 1024
"""Answers that a client does not read: above this it is not read from either; it is again below half of it."""


class Link:
    """`number` is positive for clients that connected, negative for brokers that the node connected to."""

    __slots__ = (
        "asked_to_pause",
        "closing",
        "congested",
        "encrypted",
        "fd",
        "going_on",
        "held",
        "host",
        "last_used",
        "listener",
        "number",
        "outgoing",
        "reader",
        "reading",
        "sock",
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
        self.last_used = 0
        self.reading = False
        self.writing = False
        self.asked_to_pause = False
        self.congested = False
        self.closing = False
        self.held: list[bytes] = []  # frames that came with others in one read, and wait for their turn
        self.going_on = False

    def __repr__(self) -> str:
        state = "".join(f", {word}" for word in ("closing", "congested", "asked_to_pause") if getattr(self, word))
        return f"Link({self.number} {self.listener or 'outbound'} {self.host}{state}, {self.outgoing.unsent} unsent)"

    def judge_congestion(self) -> None:
        self.congested = self.outgoing.unsent > (UNSENT_BOUND // 2 if self.congested else UNSENT_BOUND)

    @property
    def may_read(self) -> bool:
        return not (self.asked_to_pause or self.congested or self.closing or self.held)

    @property
    def may_go_on(self) -> bool:
        """Whether held frames are due, and nothing has arranged for it."""
        return bool(self.held) and not (self.asked_to_pause or self.congested or self.closing or self.going_on)

    @property
    def may_flush(self) -> bool:
        """Whether there is something to send that nothing else will send in time."""
        return self.outgoing.unsent > 0 and not self.writing and self.outgoing.cold is None
