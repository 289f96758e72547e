"""Carries out a client's effects on real sockets, in one thread without an event loop."""

import socket
import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from os import strerror
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import TYPE_CHECKING, Any

from tidelog.client.client import Client
from tidelog.client.options import Address, ClientOptions
from tidelog.effects import Close, Connect, Effect, Send
from tidelog.errors import ApiError, InvalidOption, ProtocolViolation
from tidelog.model import Time
from tidelog.ports import Buffer
from tidelog.wire.frames import Buffers, FrameReader

if TYPE_CHECKING:
    from tidelog.shell.client_security import Security

MAX_ANSWER_BYTES = 2**31 - 1
TRUSTED_BYTES = 4 * 1024 * 1024
"""What the length of a response alone makes a client allocate."""
SPARE_BYTES = 32 * 1024 * 1024

_MAX_SLEEP_MS = 60_000


def now() -> Time:
    """The current time on both clocks."""
    return Time(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


def addresses(bootstrap: str | Sequence[Address]) -> list[Address]:
    """The addresses in `host:port,host:port`, the format of `bootstrap.servers`; ValueError for anything else."""
    if not isinstance(bootstrap, str):
        return list(bootstrap)
    found: list[Address] = []
    for text in bootstrap.split(","):
        host, colon, port = text.strip().rpartition(":")
        if not colon or not host or not port.isdigit():
            raise ValueError(f"{text!r} is not HOST:PORT")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return found


def security(options: ClientOptions) -> "Security | None":
    """How connections with these options begin; None without TLS and SASL."""
    if options.security_protocol.upper() == "PLAINTEXT":
        return None  # without TLS its modules are not loaded
    from tidelog.shell.client_security import security_of

    return security_of(options)


class _Socket:
    """One connection: the bytes still to be sent, and the frames that arrive."""

    def __init__(self, connection: int, host: str, sock: socket.socket, buffers: Buffers) -> None:
        self.connection = connection
        self.host = host
        self.sock: Any = sock
        self.reader = FrameReader(MAX_ANSWER_BYTES, buffers, TRUSTED_BYTES)
        self.unsent: deque[memoryview] = deque()
        self.is_connected = False

    @property
    def has_more(self) -> bool:
        """Whether TLS has buffered bytes that the selector does not know of."""
        return hasattr(self.sock, "pending") and self.sock.fileno() >= 0 and bool(self.sock.pending())

    def write(self) -> bool:
        """Send as much as the socket takes now; return whether something is left."""
        while self.unsent:
            try:
                sent = self.sock.sendmsg(list(islice(self.unsent, 64)))
            except (BlockingIOError, InterruptedError):
                return True
            while sent:
                part = self.unsent.popleft()
                if sent < len(part):
                    self.unsent.appendleft(part[sent:])
                    break
                sent -= len(part)
        return False


class Sockets:
    """Carries out a client's effects and reports what happens on its connections."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._security = security(client.cluster.options)
        self._selector = DefaultSelector()
        self._sockets: dict[int, _Socket] = {}
        self._buffers = Buffers(SPARE_BYTES)

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Carry out the effects, and all effects that follow from them."""
        pending = deque(effects)
        while pending:
            effect = pending.popleft()
            if isinstance(effect, Send):
                pending.extend(self._send(effect))
            elif isinstance(effect, Connect):
                pending.extend(self._connect(effect))
            elif isinstance(effect, Close):
                self._remove(effect.connection)

    def run(self, until: int) -> None:
        """Wait for one event on the connections or the next deadline, at most until `until` (monotonic ms)."""
        moment = now().mono
        due = self.client.next_deadline
        stop = min(until, moment + _MAX_SLEEP_MS, until if due is None else due)
        if self._sockets:
            ready = self._selector.select(max(0, stop - moment) / 1000)
        else:
            time.sleep(max(0, stop - moment) / 1000)
            ready = []
        for key, events in ready:
            self._handle(key.data, events)
        if due is not None and now().mono >= due:
            self.carry_out(self.client.wake(now()))

    def close(self) -> None:
        for connection in list(self._sockets):
            self._remove(connection)
        self._selector.close()

    def _connect(self, effect: Connect) -> list[Effect]:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(effect.host, effect.port, type=socket.SOCK_STREAM)[
                0
            ]
            sock = socket.socket(family, kind, protocol)
        except OSError as reason:
            return self.client.connect_failed(effect.connection, str(reason), now())
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found = _Socket(effect.connection, effect.host, sock, self._buffers)
        self._sockets[effect.connection] = found
        self._selector.register(sock, EVENT_WRITE, found)
        sock.connect_ex(address)
        return []

    def _send(self, effect: Send) -> list[Effect]:
        found = self._sockets.get(effect.connection)
        if found is None:
            return []
        found.unsent.extend(memoryview(part) for part in effect.parts if isinstance(part, Buffer))
        return self._write(found)

    def _write(self, found: _Socket) -> list[Effect]:
        try:
            rest = found.write()
        except OSError:
            return self._connection_lost(found)
        self._selector.modify(found.sock, EVENT_READ | EVENT_WRITE if rest else EVENT_READ, found)
        return []

    def _handle(self, found: _Socket, events: int) -> None:
        if self._sockets.get(found.connection) is not found:
            return
        if not found.is_connected:
            self.carry_out(self._finish_connecting(found))
            return
        if events & EVENT_WRITE:
            self.carry_out(self._write(found))
        more = bool(events & EVENT_READ)
        while more and self._sockets.get(found.connection) is found:
            self.carry_out(self._read(found))
            more = self._security is not None and found.has_more

    def _finish_connecting(self, found: _Socket) -> list[Effect]:
        error = self._connect_error(found)
        if error:
            self._remove(found.connection)
            return self.client.connect_failed(found.connection, error, now())
        if self._security is not None:
            try:
                found.sock = self._security.secure(found.sock, found.host)
            except OSError as reason:
                self._check_refusal(found, reason)
                self._remove(found.connection)
                return self.client.connect_failed(found.connection, str(reason), now())
            except (ApiError, InvalidOption):
                self._remove(found.connection)
                raise  # a retry cannot succeed
        found.is_connected = True
        self._selector.modify(found.sock, EVENT_READ, found)
        return self.client.connected(found.connection, now())

    @staticmethod
    def _connect_error(found: _Socket) -> str:
        error = found.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return strerror(error) if error else ""

    def _adopt(self, found: _Socket) -> None:
        """Add a socket that is connected and secured."""
        found.is_connected = True
        self._sockets[found.connection] = found
        self._selector.register(found.sock, EVENT_READ, found)

    def _read(self, found: _Socket) -> list[Effect]:
        try:
            count = found.sock.recv_into(found.reader.buffer())
            frames = found.reader.received(count)
        except (BlockingIOError, InterruptedError):
            return []
        except (OSError, ProtocolViolation) as reason:
            self._check_refusal(found, reason)
            return self._connection_lost(found)
        if not count:
            return self._connection_lost(found)
        return self.client.received(found.connection, frames, now()) if frames else []

    def _check_refusal(self, found: _Socket, problem: Exception) -> None:
        """InvalidOption if the broker does not accept the client's certificate: a retry cannot succeed."""
        refusal = None if self._security is None else self._security.refusal(problem, found.host)
        if refusal is not None:
            self._remove(found.connection)
            raise refusal

    def _connection_lost(self, found: _Socket) -> list[Effect]:
        self._remove(found.connection)
        return self.client.disconnected(found.connection, now())

    def _remove(self, connection: int) -> None:
        found = self._sockets.pop(connection, None)
        if found is not None:
            self._selector.unregister(found.sock)
            found.sock.close()
