"""The listening sockets: connections are accepted here, and counted.

max.connections: while it is reached nothing more is accepted on the clients' listeners (the brokers' own stays open).
max.connections.per.ip: a connection too many from one address is closed at once, as Kafka does.
"""

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Callable

from tidelog.config.broker import BrokerConfig
from tidelog.shell.lines import Lines

ACCEPTS_A_TURN = 32
REST_S = 1.0
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Enter = Callable[[int, socket.socket, str, str], None]


class Doors:
    """`enter(number, socket, listener, peer address)` takes over what was accepted, until `left`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, config: BrokerConfig, lines: Lines, enter: Enter) -> None:
        self._loop = loop
        self._lines = lines
        self._enter = enter
        self._most = config.max_connections
        self._most_per_host = config.max_connections_per_ip
        self._overrides = _overrides(config.max_connections_per_ip_overrides)
        self._doors: dict[socket.socket, tuple[str, bool]] = {}
        self._shut: set[socket.socket] = set()
        self._hosts: Counter[str] = Counter()
        self._last_number = 0
        self._sizes = _buffer_sizes(config)

    def __repr__(self) -> str:
        return f"Doors({len(self._doors)} listeners, {self._hosts.total()} inside)"

    def open(self, listener: str, sock: socket.socket, *, limited: bool) -> None:
        self._doors[sock] = (listener, limited)
        self._shut.add(sock)
        self._open_or_shut()

    def close(self) -> None:
        for sock in self._doors:
            if sock not in self._shut:
                self._loop.remove_reader(sock.fileno())
            sock.close()
        self._doors.clear()

    def left(self, host: str) -> None:
        """A connection from this address is gone."""
        self._hosts[host] -= 1
        if self._hosts[host] <= 0:
            del self._hosts[host]
        if self._shut:
            self._open_or_shut()

    def _open_or_shut(self) -> None:
        full = self._hosts.total() >= self._most
        for sock, (_, limited) in self._doors.items():
            if full and limited and sock not in self._shut:
                self._shut.add(sock)
                self._loop.remove_reader(sock.fileno())
            elif sock in self._shut and not (full and limited):
                self._shut.discard(sock)
                self._loop.add_reader(sock.fileno(), self._accept, sock)

    def _accept(self, door: socket.socket) -> None:
        listener, _ = self._doors[door]
        for _ in range(ACCEPTS_A_TURN):
            if door in self._shut:
                return
            try:
                sock, address = door.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(door, error)
                return
            self._welcome(sock, listener, address[0])

    def _welcome(self, sock: socket.socket, listener: str, host: str) -> None:
        most = self._overrides.get(host, self._most_per_host)
        if self._hosts[host] >= most:
            fields = {"listener": listener, "peer": host, "reason": f"max.connections.per.ip is {most}"}
            self._lines.write("info", "connection.refused", fields)
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, size in self._sizes:
            sock.setsockopt(socket.SOL_SOCKET, option, size)
        self._hosts[host] += 1
        self._last_number += 1
        self._enter(self._last_number, sock, listener, host)
        self._open_or_shut()

    def _rest(self, door: socket.socket, error: OSError) -> None:
        """Out of descriptors or memory: stop accepting for a moment instead of spinning."""
        if error.errno not in _FULL:
            return
        self._lines.write("error", "connection.accept", {"reason": error.strerror})
        self._shut.add(door)
        self._loop.remove_reader(door.fileno())
        self._loop.call_later(REST_S, self._open_or_shut)


def _buffer_sizes(config: BrokerConfig) -> list[tuple[int, int]]:
    """The sizes that were asked for. Kafka's default of 100 KiB is not set: the system tunes better."""
    wished = (
        ("socket.send.buffer.bytes", socket.SO_SNDBUF, config.socket_send_buffer_bytes),
        ("socket.receive.buffer.bytes", socket.SO_RCVBUF, config.socket_receive_buffer_bytes),
    )
    return [(option, size) for name, option, size in wished if name in config.explicit and size > 0]


def _overrides(text: str) -> dict[str, int]:
    """`address:count,…` of max.connections.per.ip.overrides."""
    pairs = (pair.rpartition(":") for pair in text.split(",") if pair.strip())
    return {host.strip(): int(count) for host, _, count in pairs}


def bind(host: str, port: int, backlog: int) -> socket.socket:
    """A listening socket that does not block; OSError where the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(max(backlog, 128))
    except BaseException:
        sock.close()
        raise
    sock.setblocking(False)
    return sock
