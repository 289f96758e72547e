"""Opens connections to other brokers without blocking."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidelog.effects import REFUSED
from tidelog.shell.thread_pool import ThreadPool

Done = Callable[[socket.socket | str], None]
Address = tuple[Any, Any]


@dataclass(eq=False, slots=True)
class DialAttempt:
    """`done` is called with the connected socket or the reason of the failure, never within `dial` itself."""

    number: int
    host: str
    port: int
    done: Done
    addresses: list[Address] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None
    sock: socket.socket | None = None


class Dialer:
    """`timeout_ms`: an attempt fails after this time (socket.connection.setup.timeout.ms)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread_pool: ThreadPool, timeout_ms: int) -> None:
        self._loop = loop
        self._thread_pool = thread_pool
        self._timeout_ms = timeout_ms
        self._attempts: dict[int, DialAttempt] = {}

    def __repr__(self) -> str:
        return f"Dialer({len(self._attempts)} attempts)"

    def dial(self, number: int, host: str, port: int, done: Done) -> None:
        attempt = self._attempts[number] = DialAttempt(number, host, port, done)
        attempt.timer = self._loop.call_later(self._timeout_ms / 1000, self._complete, attempt, "timed out")
        numeric = _numeric_address(host, port)
        if numeric:
            self._resolved(attempt, numeric)
        else:
            self._thread_pool.submit("name", host, lambda: self._look_up(attempt))

    def cancel(self, number: int) -> None:
        """The node no longer needs this connection."""
        attempt = self._attempts.pop(number, None)
        if attempt is not None:
            self._release(attempt)

    def close(self) -> None:
        for number in list(self._attempts):
            self.cancel(number)

    def _look_up(self, attempt: DialAttempt) -> None:
        """On a thread: name resolution by the operating system may block."""
        try:
            found = socket.getaddrinfo(attempt.host, attempt.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a host name"
            self._loop.call_soon_threadsafe(self._complete, attempt, f"{attempt.host}: {reason}")
            return
        addresses = [(each[0], each[4]) for each in found]
        self._loop.call_soon_threadsafe(self._resolved, attempt, addresses)

    def _resolved(self, attempt: DialAttempt, addresses: list[Address]) -> None:
        attempt.addresses = addresses
        self._try_next(attempt)

    def _try_next(self, attempt: DialAttempt) -> None:
        if attempt.number not in self._attempts:
            return
        family, address = attempt.addresses.pop(0)
        sock = attempt.sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(address)
        if code in (0, errno.EINPROGRESS):
            self._loop.add_writer(sock.fileno(), self._on_writable, attempt)
        else:
            self._loop.call_soon(self._failed, attempt, code)

    def _on_writable(self, attempt: DialAttempt) -> None:
        sock = attempt.sock
        assert sock is not None
        self._loop.remove_writer(sock.fileno())
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._failed(attempt, code)
        else:
            attempt.sock = None
            self._complete(attempt, sock)

    def _failed(self, attempt: DialAttempt, code: int) -> None:
        if attempt.addresses:
            self._close_socket(attempt)
            self._try_next(attempt)
        else:
            self._complete(attempt, REFUSED if code == errno.ECONNREFUSED else os.strerror(code))

    def _complete(self, attempt: DialAttempt, result: socket.socket | str) -> None:
        if self._attempts.pop(attempt.number, None) is attempt:
            self._release(attempt)
            attempt.done(result)

    def _release(self, attempt: DialAttempt) -> None:
        if attempt.timer is not None:
            attempt.timer.cancel()
        self._close_socket(attempt)

    def _close_socket(self, attempt: DialAttempt) -> None:
        if attempt.sock is not None:
            self._loop.remove_writer(attempt.sock.fileno())
            attempt.sock.close()
            attempt.sock = None


def _numeric_address(host: str, port: int) -> list[Address]:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return [(family, (host, port))]
    return []
