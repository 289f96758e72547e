"""All connections of one event loop: received bytes are delivered as frames, sent bytes keep their order.

- Data put on connections within one input is sent by `flush`, with one system call per connection where possible.
- A peer that does not read its responses is not read from; an idle client is closed after connections.max.idle.ms.
- Requests that are arriving share `queued.max.request.bytes`, and must go on arriving (`arrivals.py`).
- A protocol violation closes its connection with one log line and affects no other.
- Methods called by the node never call the observer: a socket that fails then is reported in a later callback.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from socket import socket
from typing import Protocol

from tidelog.config import listeners
from tidelog.config.broker import BrokerConfig
from tidelog.effects import Part
from tidelog.errors import DiskFailed, ProtocolViolation
from tidelog.model import Time
from tidelog.shell.connections.acceptor import Acceptor
from tidelog.shell.connections.arrivals import Arrivals
from tidelog.shell.connections.connection import Connection, ShortSlice, load_slice
from tidelog.shell.connections.handshakes import Handshakes
from tidelog.shell.connections.key_stores import UnusableCertificate
from tidelog.shell.connections.tls import ANONYMOUS, principal_of
from tidelog.shell.connections.tls_listeners import TlsListeners
from tidelog.shell.event_logger import EventLogger
from tidelog.shell.thread_pool import ThreadPool
from tidelog.shell.tls_stream import TlsStream
from tidelog.wire.frames import TRUSTED_BYTES, Buffers, FrameReader

READS_PER_TURN = 8
FRAMES_PER_TURN = 64
"""Frames of one connection per turn. A small request may need much work: thousands from one read would delay all
others."""

AUTHENTICATION_S = 30.0
"""The maximum time from the start of a SASL connection to the end of its login. Kafka has no such limit: a client that
sends a byte now and then keeps a connection open."""
UNAUTHENTICATED_BYTES = 16 * 1024
"""What a length alone makes us allocate for a client that has not logged in."""


def clock() -> Time:
    return Time(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


class ConnectionObserver(Protocol):
    """Receives what happens on connections. `listener` is empty for connections that this broker opened."""

    def connection_opened(self, number: int, listener: str, host: str, principal: str) -> None: ...

    def frames_received(self, number: int, frames: Sequence[memoryview], now: Time) -> None:
        """Complete frames; the views become invalid on return."""

    def connection_closed(self, number: int) -> None: ...


class Traffic:
    """Connections by number: the acceptor adds positive numbers, `add` also negative ones."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: BrokerConfig,
        logger: EventLogger,
        thread_pool: ThreadPool,
        observer: ConnectionObserver,
        tls: TlsListeners,
        now: Callable[[], Time] = clock,
    ) -> None:
        self.connections: dict[int, Connection] = {}
        self._now = now
        self.acceptor = Acceptor(loop, config, logger, self._accepted)
        self._loop = loop
        self._limits = _limits_before_authentication(config)
        self._frame_limit = config.socket_request_max_bytes
        self._idle_ms = config.connections_max_idle_ms
        self._logger = logger
        self._thread_pool = thread_pool
        self._observer = observer
        self._tls = tls
        self._among_nodes = _among_nodes(config)
        self._shared = listeners.inter_broker_listener(config) if listeners.is_shared(config) else None
        self.broker_handshakes = Handshakes(loop)
        """With other brokers, in both directions: however many clients come, brokers reach each other."""
        self._client_handshakes = Handshakes(loop)
        self.arrivals = Arrivals(loop, config, self._update_reading, self._too_slow)
        self._broker_buffers = Buffers()
        """Of brokers: however much clients send, brokers reach each other."""
        self._changed: list[Connection] = []
        self._close_idle()

    def __repr__(self) -> str:
        return f"Traffic({len(self.connections)} connections)"

    # Called by the server

    def add(self, number: int, sock: socket | TlsStream, listener: str, host: str, principal: str) -> None:
        """Take over a connected socket."""
        limit = self._limits.get(listener)
        is_limited = number > 0 and (listener not in self._among_nodes or listener == self._shared)
        buffers = self.arrivals.buffers if is_limited else self._broker_buffers
        if limit is None:
            reader = FrameReader(self._frame_limit, buffers)
        else:
            reader = FrameReader(limit, buffers, UNAUTHENTICATED_BYTES)
        connection = self.connections[number] = Connection(number, sock, listener, host, reader)
        connection.last_used = self._now().mono
        connection.is_limited = is_limited
        if limit is not None:
            connection.unauthenticated = self._loop.call_later(AUTHENTICATION_S, self._not_authenticated, connection)
        self._update_reading(connection)
        self._observer.connection_opened(number, listener, host, principal)

    def put(self, number: int, parts: Sequence[Part]) -> None:
        """Send the parts with the next `flush`."""
        connection = self.connections.get(number)
        if connection is not None and not connection.closing:
            connection.outgoing.put(parts)
            self._changed.append(connection)

    def flush(self) -> None:
        for connection in self._changed:
            if connection.may_flush:
                self._flush(connection)
            else:
                self._update_congestion(connection)
        self._changed.clear()

    def pause(self, number: int, *, paused: bool) -> None:
        connection = self.connections.get(number)
        if connection is not None:
            connection.paused = paused
            self._update_reading(connection)

    def retain(self, number: int, size: int) -> None:
        """The node keeps so many bytes of the connection's request."""
        connection = self.connections.get(number)
        if connection is not None and connection.is_limited:
            self.arrivals.retain(connection, size)

    def put_back(self, number: int, frames: Sequence[memoryview]) -> None:
        """Deliver these frames again before any others."""
        connection = self.connections.get(number)
        if connection is not None:
            connection.held[:0] = [bytes(frame) for frame in frames]
            self._update_reading(connection)

    def limit_frames(self, number: int, limit: int) -> None:
        """The client of this connection has logged in: the limit of its frames from now on."""
        connection = self.connections.get(number)
        if connection is not None:
            connection.reader.limit = limit
            connection.reader.trusted = TRUSTED_BYTES
            if connection.unauthenticated is not None:
                connection.unauthenticated.cancel()

    def close(self, number: int) -> bool:
        """Close the connection once its data is sent; False if there is no such connection."""
        connection = self.connections.get(number)
        if connection is None:
            return False
        if connection.may_flush:
            self._flush(connection)
        if connection.number in self.connections:
            connection.closing = True
            self._close_when_sent(connection)
        return True

    def drop(self, number: int) -> None:
        """Close the connection at once, as if its peer had. Never while effects are carried out."""
        connection = self.connections.get(number)
        if connection is not None:
            self._connection_lost(connection)

    def close_all(self) -> None:
        """Close all sockets, after the loop has ended."""
        self.acceptor.close()
        self.broker_handshakes.close()
        self._client_handshakes.close()
        for connection in list(self.connections.values()):
            self._remove(connection)

    # Reading

    def _accepted(self, number: int, sock: socket, listener: str, host: str) -> None:
        served = self._tls.server(listener)
        if served is None:
            self.add(number, sock, listener, host, ANONYMOUS)
            return

        def done(secured: TlsStream | str) -> None:
            reason = secured
            if not isinstance(secured, str):
                try:
                    principal = principal_of(secured, served.rules, time.time())
                except UnusableCertificate as problem:
                    principal, reason = None, str(problem)
                else:
                    reason = "no rule of ssl.principal.mapping.rules matches the certificate's subject"
                if principal is not None:
                    self.add(number, secured, listener, host, principal)
                    return
                secured.close()
            self.acceptor.connection_closed(host)
            fields = {"listener": listener, "peer": host, "reason": reason}
            self._logger.write("info", "connection.handshake_failed", fields)

        handshakes = self.broker_handshakes if listener in self._among_nodes else self._client_handshakes
        assert served.context is not None, f"{listener} is open"
        handshakes.begin(sock, served.context, None, done)

    def _update_reading(self, connection: Connection) -> None:
        if connection.may_read != connection.reading:
            connection.reading = not connection.reading
            if connection.reading:
                self.arrivals.recycle(connection)
                self._loop.add_reader(connection.fd, self._readable, connection)
                self._read_decrypted(connection)
            else:
                self._loop.remove_reader(connection.fd)
        if connection.may_deliver_held:
            connection.delivery_scheduled = True
            self._loop.call_soon(self._deliver_held, connection)

    def _deliver_held(self, connection: Connection) -> None:
        """Deliver the next held frames, unless the connection was paused or closed in the meantime."""
        connection.delivery_scheduled = False
        if connection.may_deliver_held and self.connections.get(connection.number) is connection:
            due, connection.held = connection.held[:FRAMES_PER_TURN], connection.held[FRAMES_PER_TURN:]
            self._observer.frames_received(connection.number, [memoryview(frame) for frame in due], self._now())
            if self.connections.get(connection.number) is connection:
                self._update_reading(connection)

    def _deliver(self, connection: Connection, frames: Sequence[memoryview], now: Time) -> None:
        if len(frames) > FRAMES_PER_TURN:
            connection.held = [bytes(frame) for frame in frames[FRAMES_PER_TURN:]]
            self._update_reading(connection)
            frames = frames[:FRAMES_PER_TURN]
        self._observer.frames_received(connection.number, frames, now)

    def _read_decrypted(self, connection: Connection) -> None:
        """TLS may hold bytes that the socket no longer has, so the socket will not become readable for them."""
        if connection.encrypted and connection.sock.pending():
            self._loop.call_soon(self._readable_still, connection)

    def _readable_still(self, connection: Connection) -> None:
        if connection.reading and self.connections.get(connection.number) is connection:
            self._readable(connection)

    def _readable(self, connection: Connection) -> None:
        """Read what has arrived, a bounded number of times, and let the node process each read."""
        now = self._now()
        connection.last_used = now.mono
        reader = connection.reader
        for _ in range(READS_PER_TURN):
            space = reader.buffer()
            try:
                count = connection.sock.recv_into(space)
            except BlockingIOError:
                return self.arrivals.recycle(connection)
            except OSError:
                return self._connection_lost(connection)
            if count == 0:
                return self._connection_lost(connection)
            try:
                frames = reader.received(count)
                if connection.is_limited and (connection.began or not reader.is_between_frames):
                    self.arrivals.received(connection, now.mono, completed=bool(frames))
                if frames:
                    self._deliver(connection, frames, now)
            except ProtocolViolation as violation:
                return self._violated(connection, violation)
            is_last = count < len(space) or not connection.reading
            del space, frames  # the reader cannot reuse a buffer that is still viewed
            if is_last:
                return None
        self.arrivals.recycle(connection)
        return self._read_decrypted(connection)

    def _too_slow(self, connection: Connection, reason: str) -> None:
        fields = {"listener": connection.listener, "peer": connection.host, "reason": reason}
        self._logger.write("warning", "connection.too_slow", fields)
        self._connection_lost(connection)

    def _violated(self, connection: Connection, violation: ProtocolViolation) -> None:
        fields = {"listener": connection.listener, "peer": connection.host, "reason": violation}
        self._logger.write("warning", "connection.violation", fields)
        self._connection_lost(connection)

    # Writing

    def _flush(self, connection: Connection) -> None:
        outgoing = connection.outgoing
        try:
            done = outgoing.flush()
        except (ShortSlice, DiskFailed) as failure:
            kind = "connection.short_slice" if isinstance(failure, ShortSlice) else "disk.read"
            self._logger.write("error", kind, {"peer": connection.host, "reason": failure})
            return self._close_soon(connection)
        except OSError:
            return self._close_soon(connection)
        self._update_writing(connection, waits=not done and outgoing.cold is None)
        if outgoing.cold is not None:
            self._load_cold(connection)
        return self._close_when_sent(connection) if connection.closing else self._update_congestion(connection)

    def _update_congestion(self, connection: Connection) -> None:
        """Stop reading from a peer that does not read its responses."""
        connection.update_congestion()
        self._update_reading(connection)

    def _close_when_sent(self, connection: Connection) -> None:
        """Close a closing connection once its last bytes are sent."""
        self._update_reading(connection)
        if not connection.outgoing.unsent:
            self._remove(connection)

    def _update_writing(self, connection: Connection, *, waits: bool) -> None:
        if waits != connection.writing:
            connection.writing = waits
            if waits:
                self._loop.add_writer(connection.fd, self._flush, connection)
            else:
                self._loop.remove_writer(connection.fd)

    def _load_cold(self, connection: Connection) -> None:
        """Read the cold slice on a thread, then continue sending."""
        cold = connection.outgoing.cold
        assert cold is not None

        def continue_sending() -> None:
            connection.outgoing.cold_loaded()
            if self.connections.get(connection.number) is connection:
                self._flush(connection)

        def work() -> None:
            try:
                load_slice(cold)
            except DiskFailed:
                """Sending the slice raises the same error and closes the connection."""
            self._loop.call_soon_threadsafe(continue_sending)

        self._thread_pool.submit("read", cold.file.path, work)

    # Closing

    def _close_soon(self, connection: Connection) -> None:
        """The socket failed while the node's effects were carried out: report it in a later callback, since inputs must
        not nest."""
        connection.closing = True
        self._update_reading(connection)
        self._update_writing(connection, waits=False)
        self._loop.call_soon(self._connection_lost, connection)

    def _connection_lost(self, connection: Connection) -> None:
        if self.connections.get(connection.number) is connection:
            self._remove(connection)
            self._observer.connection_closed(connection.number)

    def _not_authenticated(self, connection: Connection) -> None:
        fields = {"listener": connection.listener, "peer": connection.host, "reason": "no login in time"}
        self._logger.write("info", "connection.authentication_failed", fields)
        self._connection_lost(connection)

    def _remove(self, connection: Connection) -> None:
        if connection.unauthenticated is not None:
            connection.unauthenticated.cancel()
        del self.connections[connection.number]
        connection.closing = True
        self._update_reading(connection)
        self._update_writing(connection, waits=False)
        connection.sock.close()
        self.arrivals.ended(connection)
        if connection.number > 0:
            self.acceptor.connection_closed(connection.host)

    def _close_idle(self) -> None:
        """Close idle clients, and check again when the next one may be due."""
        if self._idle_ms <= 0:
            return
        now = self._now().mono
        for connection in [connection for connection in self.connections.values() if connection.number > 0]:
            if now - connection.last_used >= self._idle_ms:
                self._connection_lost(connection)
        oldest = min(
            (connection.last_used for connection in self.connections.values() if connection.number > 0), default=now
        )
        self._loop.call_later((oldest + self._idle_ms - now + 1) / 1000, self._close_idle)


def _limits_before_authentication(config: BrokerConfig) -> dict[str, int]:
    """How long frames may be on listeners with SASL, by name, until the node says otherwise."""
    return {
        each.listener: config.of_listener(each.listener).sasl_server_max_receive_size
        for each in listeners.opened(config)
        if each.security.startswith("SASL")
    }


def _among_nodes(config: BrokerConfig) -> frozenset[str]:
    """The listeners by which the nodes of the cluster reach each other."""
    return frozenset({listeners.inter_broker_listener(config), *config.controller_listener_names})
