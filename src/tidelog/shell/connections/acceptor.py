"""The listening sockets: connections are accepted and counted here.

max.connection.creation.rate: above this rate accepting pauses. connection_creation_rate of an address: above it a
connection is kept waiting, then closed.

max.connections: at this number nothing more is accepted on the clients' listeners; the inter-broker listener stays
open. The same holds where three quarters of the process's descriptors are used: logs need the others.

max.connections.per.ip: above it a connection of that address is closed at once, as in Kafka.
"""

import asyncio
import errno
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable

from tidelog.config import listeners
from tidelog.config.broker import BrokerConfig
from tidelog.config.families.network_options import connections_by_address
from tidelog.effects import SetConnectionLimits
from tidelog.model import canonical_host
from tidelog.node.quotas import WindowedRate
from tidelog.shell.event_logger import EventLogger

UNLIMITED = (1 << 31) - 1
MOST_HOSTS = 10_000

ACCEPTS_PER_TURN = 32
PAUSE_S = 1.0
TIMER_SLACK_S = 0.005
"""A timer may fire slightly early."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_LOCAL = ("127.", "::1")
OnAccept = Callable[[int, socket.socket, str, str], None]


class CreationRates:
    """Connection creation rates (KIP-612), measured over the windows of quota.window.num; no delay exceeds one
    window."""

    def __init__(self, config: BrokerConfig) -> None:
        self._samples = config.quota_window_num
        self._window_ms = config.quota_window_size_seconds * 1000
        self._overall = WindowedRate(self._samples, self._window_ms)
        self._hosts: dict[str, WindowedRate] = {}
        self._paused_until = 0.0

    def __repr__(self) -> str:
        return f"CreationRates({self._overall!r}, {len(self._hosts)} addresses)"

    @property
    def is_paused(self) -> bool:
        return time.monotonic() < self._paused_until

    def host_delay_s(self, host: str, rate: float) -> float:
        """Count a connection of this address; return the seconds to delay before closing it, 0 if it is accepted."""
        meter = self._hosts.get(host)
        if meter is None:
            if len(self._hosts) >= MOST_HOSTS:
                del self._hosts[next(iter(self._hosts))]
            meter = self._hosts[host] = WindowedRate(self._samples, self._window_ms)
        return self._delay_s(meter, rate, refused=True)

    def overall_delay_s(self, rate: float) -> float:
        """Count an accepted connection; return the seconds for which accepting must pause."""
        if rate >= UNLIMITED:
            return 0.0
        wait_s = self._delay_s(self._overall, rate, refused=False)
        self._paused_until = time.monotonic() + wait_s
        return wait_s

    def _delay_s(self, meter: WindowedRate, rate: float, *, refused: bool) -> float:
        """Return the delay. A refused connection is not counted."""
        now = time.monotonic_ns() // 1_000_000
        meter.record(1, now)
        throttle_ms = meter.throttle_ms(rate, now)
        if refused and throttle_ms > 0:
            meter.record(-1, now)
        return min(throttle_ms, self._window_ms) / 1000


class Acceptor:
    """`on_accept(number, socket, listener, peer address)` takes over each accepted connection, until
    `connection_closed`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, config: BrokerConfig, logger: EventLogger, on_accept: OnAccept
    ) -> None:
        self._loop = loop
        self._logger = logger
        self._on_accept = on_accept
        self._limits = SetConnectionLimits(
            config.max_connections,
            config.max_connections_per_ip,
            connections_by_address(config.max_connections_per_ip_overrides),
            config.max_connection_creation_rate,
            {},
        )
        self._rates = CreationRates(config)
        self._listeners: dict[socket.socket, tuple[str, bool]] = {}  # → name, whether max.connections applies
        self._paused: set[socket.socket] = set()  # listeners that the loop does not watch
        self._hosts: Counter[str] = Counter()  # open connections of each address
        self._last_number = 0  # numbers are never reused: late effects must not reach another connection
        self._sizes = _buffer_sizes(config)
        self._local_send_buffer = config.socket_send_buffer_bytes
        self._encrypted = _encrypted(config)
        self._descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4

    def __repr__(self) -> str:
        return f"Acceptor({len(self._listeners)} listeners, {self._hosts.total()} connections)"

    def open(self, listener: str, sock: socket.socket, *, limited: bool) -> None:
        self._listeners[sock] = (listener, limited)
        self._paused.add(sock)
        self._update_accepting()

    def close(self) -> None:
        for sock in self._listeners:
            if sock not in self._paused:
                self._loop.remove_reader(sock.fileno())
            sock.close()
        self._listeners.clear()

    def set_limits(self, limits: SetConnectionLimits) -> None:
        """Apply other limits; existing connections stay."""
        self._limits = limits
        self._update_accepting()

    def connection_closed(self, host: str) -> None:
        """A connection of this address was closed."""
        self._hosts[host] -= 1
        if self._hosts[host] <= 0:
            del self._hosts[host]
        if self._paused:
            self._update_accepting()

    def _update_accepting(self) -> None:
        full = self._hosts.total() >= min(self._limits.most, self._descriptors) or self._rates.is_paused
        for sock, (_, limited) in self._listeners.items():
            if full and limited and sock not in self._paused:
                self._paused.add(sock)
                self._loop.remove_reader(sock.fileno())
            elif sock in self._paused and not (full and limited):
                self._paused.discard(sock)
                self._loop.add_reader(sock.fileno(), self._accept, sock)

    def _accept(self, listening: socket.socket) -> None:
        listener, limited = self._listeners[listening]
        for _ in range(ACCEPTS_PER_TURN):
            if listening in self._paused:
                return
            try:
                sock, address = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_after_error(listening, error)
                return
            self._admit(sock, listener, canonical_host(address[0]), limited=limited)

    def _admit(self, sock: socket.socket, listener: str, host: str, *, limited: bool) -> None:
        most = self._limits.overrides.get(host, self._limits.per_host)
        if self._hosts[host] >= most:
            self._refuse(listener, host, f"max.connections.per.ip is {most}")
            sock.close()
            return
        if limited and self._exceeds_rate(sock, listener, host):
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, size in self._sizes:
            sock.setsockopt(socket.SOL_SOCKET, option, size)
        if listener in self._encrypted and host.startswith(_LOCAL):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._local_send_buffer)
        self._hosts[host] += 1
        self._last_number += 1
        self._on_accept(self._last_number, sock, listener, host)
        self._update_accepting()

    def _refuse(self, listener: str, host: str, reason: str) -> None:
        self._logger.write("info", "connection.refused", {"listener": listener, "peer": host, "reason": reason})

    def _exceeds_rate(self, sock: socket.socket, listener: str, host: str) -> bool:
        """Whether the connection exceeds a rate. Above the rate of its address it is kept waiting, then closed; above
        the overall rate it is accepted, and accepting pauses behind it."""
        rate = self._limits.host_rates.get(host, self._limits.host_rates.get(None))
        if rate is not None and (wait_s := self._rates.host_delay_s(host, rate)) > 0:
            self._refuse(listener, host, f"connection_creation_rate is {rate:g}")
            self._loop.call_later(wait_s, sock.close)
            return True
        wait_s = self._rates.overall_delay_s(self._limits.rate)
        if wait_s > 0:
            self._loop.call_later(wait_s + TIMER_SLACK_S, self._update_accepting)
        return False

    def _pause_after_error(self, listening: socket.socket, error: OSError) -> None:
        """Out of descriptors or memory: pause accepting instead of spinning."""
        if error.errno not in _FULL:
            return
        self._logger.write("error", "connection.accept", {"reason": error.strerror})
        self._paused.add(listening)
        self._loop.remove_reader(listening.fileno())
        self._loop.call_later(PAUSE_S, self._update_accepting)


def _buffer_sizes(config: BrokerConfig) -> list[tuple[int, int]]:
    """The configured buffer sizes. Kafka's default of 100 KiB is not applied: it limits distant clients."""
    requested = (
        ("socket.send.buffer.bytes", socket.SO_SNDBUF, config.socket_send_buffer_bytes),
        ("socket.receive.buffer.bytes", socket.SO_RCVBUF, config.socket_receive_buffer_bytes),
    )
    return [(option, size) for name, option, size in requested if name in config.explicit and size > 0]


def _encrypted(config: BrokerConfig) -> frozenset[str]:
    """The listeners with TLS, on which clients of this machine get the send buffer of Kafka's default: they share its
    processors with the broker, which would encrypt megabytes before a client runs that could read them."""
    if config.socket_send_buffer_bytes <= 0:
        return frozenset()
    return frozenset(each.listener for each in listeners.opened(config) if each.security.endswith("SSL"))


def try_bind(host: str, port: int) -> None:
    """Check that the address is free; OSError if it is taken. Nothing listens, so no client can connect meanwhile."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))


MIN_BACKLOG = 1024
"""Kafka's default of 50 (socket.listen.backlog.size) drops connections while a thousand clients come at once."""


def bind(host: str, port: int, backlog: int) -> socket.socket:
    """A non-blocking listening socket; OSError if the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(max(backlog, MIN_BACKLOG))
    except BaseException:
        sock.close()
        raise
    sock.setblocking(False)
    return sock
