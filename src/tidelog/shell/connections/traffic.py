"""All connections of one event loop: what comes in goes up as frames, what goes out is sent in order.

- What is put on connections within one input leaves with `flush`, one system call a connection where that suffices.
- Who does not read what it is sent is not read from; a silent client goes after connections.max.idle.ms.
- A peer's fault closes its connection with one log line and disturbs nobody else.
- Nothing here calls up while it is called from above: a socket that fails then is told of in a later callback.
"""

import asyncio
import ssl
import time
from collections.abc import Sequence
from socket import socket
from typing import Protocol

from tidelog.config.broker import BrokerConfig
from tidelog.effects import Part
from tidelog.errors import DiskFailed, ProtocolViolation
from tidelog.model import Time
from tidelog.shell.connections.acceptor import Acceptor
from tidelog.shell.connections.connection import Link, ShortSlice, bring_in
from tidelog.shell.connections.handshakes import Handshakes
from tidelog.shell.connections.tls import ANONYMOUS, TlsListeners, TlsStream, principal_of
from tidelog.shell.event_logger import EventLogger
from tidelog.shell.thread_pool import ThreadPool
from tidelog.wire.frames import Buffers, FrameReader

READS_A_TURN = 8
FRAMES_A_TURN = 64
"""Of one connection. A small request may ask for much: thousands in one read would hold up everybody else."""


def clock() -> Time:
    return Time(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


class Upward(Protocol):
    """Who is told what happens on connections. `listener` is empty for those that this broker opened."""

    def entered(self, number: int, listener: str, host: str, principal: str) -> None: ...

    def received(self, number: int, frames: Sequence[memoryview], now: Time) -> None:
        """Complete frames, which are views that die on return."""

    def left(self, number: int) -> None: ...


class Traffic:
    """Connections by number: positive ones came in by the acceptor, negative ones are added by `join`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: BrokerConfig,
        logger: EventLogger,
        thread_pool: ThreadPool,
        up: Upward,
        tls: TlsListeners,
    ) -> None:
        self.links: dict[int, Link] = {}
        self.acceptor = Acceptor(loop, config, logger, self._enter)
        self._loop = loop
        self._frame_limit = config.socket_request_max_bytes
        self._idle_ms = config.connections_max_idle_ms
        self._logger = logger
        self._thread_pool = thread_pool
        self._up = up
        self._tls = tls
        self.handshakes = Handshakes(loop)
        self._buffers = Buffers()
        self._touched: list[Link] = []
        self._sweep_idle()

    def __repr__(self) -> str:
        return f"Traffic({len(self.links)} connections)"

    # From above

    def join(self, number: int, sock: socket | TlsStream, listener: str, host: str, principal: str) -> None:
        """Take over a connected socket."""
        link = self.links[number] = Link(number, sock, listener, host, FrameReader(self._frame_limit, self._buffers))
        link.last_used = clock().mono
        self._read_or_not(link)
        self._up.entered(number, listener, host, principal)

    def put(self, number: int, parts: Sequence[Part]) -> None:
        """Send the parts with the next `flush`."""
        link = self.links.get(number)
        if link is not None and not link.closing:
            link.outgoing.put(parts)
            self._touched.append(link)

    def flush(self) -> None:
        for link in self._touched:
            if link.may_flush:
                self._flush(link)
            else:
                self._judge(link)
        self._touched.clear()

    def pause(self, number: int, *, paused: bool) -> None:
        link = self.links.get(number)
        if link is not None:
            link.asked_to_pause = paused
            self._read_or_not(link)

    def close(self, number: int) -> bool:
        """Close the connection once what was put on it is sent; False where there is none."""
        link = self.links.get(number)
        if link is None:
            return False
        if link.may_flush:
            self._flush(link)
        if link.number in self.links:
            link.closing = True
            self._finish(link)
        return True

    def close_all(self) -> None:
        """The loop has ended: let go of every socket."""
        self.acceptor.close()
        self.handshakes.close()
        for link in list(self.links.values()):
            self._drop(link)

    # Coming in

    def _enter(self, number: int, sock: socket, listener: str, host: str) -> None:
        served = self._tls.server(listener)
        if served is None:
            self.join(number, sock, listener, host, ANONYMOUS)
            return

        def done(secured: ssl.SSLSocket | str) -> None:
            reason = secured
            if not isinstance(secured, str):
                principal = principal_of(secured, served.rules)
                if principal is not None:
                    self.join(number, TlsStream(secured), listener, host, principal)
                    return
                secured.close()
                reason = "no rule of ssl.principal.mapping.rules matches the certificate's subject"
            self.acceptor.left(host)
            fields = {"listener": listener, "peer": host, "reason": reason}
            self._logger.write("info", "connection.handshake_failed", fields)

        self.handshakes.begin(sock, served.context, None, done)

    def _read_or_not(self, link: Link) -> None:
        if link.may_read != link.reading:
            link.reading = not link.reading
            if link.reading:
                self._loop.add_reader(link.fd, self._readable, link)
                self._read_decrypted(link)
            else:
                self._loop.remove_reader(link.fd)
        if link.may_go_on:
            link.going_on = True
            self._loop.call_soon(self._go_on, link)

    def _go_on(self, link: Link) -> None:
        """Hand up the next frames that wait, unless the connection was paused or closed meanwhile."""
        link.going_on = False
        if link.may_go_on and self.links.get(link.number) is link:
            due, link.held = link.held[:FRAMES_A_TURN], link.held[FRAMES_A_TURN:]
            self._up.received(link.number, [memoryview(frame) for frame in due], clock())
            if self.links.get(link.number) is link:
                self._read_or_not(link)

    def _hand_up(self, link: Link, frames: Sequence[memoryview], now: Time) -> None:
        if len(frames) > FRAMES_A_TURN:
            link.held = [bytes(frame) for frame in frames[FRAMES_A_TURN:]]
            self._read_or_not(link)
            frames = frames[:FRAMES_A_TURN]
        self._up.received(link.number, frames, now)

    def _read_decrypted(self, link: Link) -> None:
        """TLS may hold bytes that the socket no longer has: nothing else would tell of them."""
        if link.encrypted and link.sock.pending():
            self._loop.call_soon(self._readable_still, link)

    def _readable_still(self, link: Link) -> None:
        if link.reading and self.links.get(link.number) is link:
            self._readable(link)

    def _readable(self, link: Link) -> None:
        """Read what has come, a bounded number of times, and let the node answer each time."""
        now = clock()
        link.last_used = now.mono
        reader = link.reader
        for _ in range(READS_A_TURN):
            space = reader.buffer()
            try:
                count = link.sock.recv_into(space)
            except BlockingIOError:
                return None
            except OSError:
                return self._lost(link)
            if count == 0:
                return self._lost(link)
            try:
                frames = reader.received(count)
                if frames:
                    self._hand_up(link, frames, now)
            except ProtocolViolation as violation:
                return self._violated(link, violation)
            if (count < len(space) and not link.encrypted) or not link.reading:
                return None
            del space, frames  # a buffer that is viewed is not used again
        return self._read_decrypted(link)

    def _violated(self, link: Link, violation: ProtocolViolation) -> None:
        fields = {"listener": link.listener, "peer": link.host, "reason": violation}
        self._logger.write("warning", "connection.violation", fields)
        self._lost(link)

    # Going out

    def _flush(self, link: Link) -> None:
        outgoing = link.outgoing
        try:
            done = outgoing.flush()
        except (ShortSlice, DiskFailed) as failure:
            kind = "connection.short_slice" if isinstance(failure, ShortSlice) else "disk.read"
            self._logger.write("error", kind, {"peer": link.host, "reason": failure})
            return self._lost_later(link)
        except OSError:
            return self._lost_later(link)
        self._write_or_not(link, waits=not done and outgoing.cold is None)
        if outgoing.cold is not None:
            self._bring_in(link)
        return self._finish(link) if link.closing else self._judge(link)

    def _judge(self, link: Link) -> None:
        """Who does not read what it is sent is not read from."""
        link.judge_congestion()
        self._read_or_not(link)

    def _finish(self, link: Link) -> None:
        """A closing connection goes once its last bytes are sent."""
        self._read_or_not(link)
        if not link.outgoing.unsent:
            self._drop(link)

    def _write_or_not(self, link: Link, *, waits: bool) -> None:
        if waits != link.writing:
            link.writing = waits
            if waits:
                self._loop.add_writer(link.fd, self._flush, link)
            else:
                self._loop.remove_writer(link.fd)

    def _bring_in(self, link: Link) -> None:
        """Read the cold slice on a thread, then go on sending."""
        cold = link.outgoing.cold
        assert cold is not None

        def back() -> None:
            link.outgoing.brought_in()
            if self.links.get(link.number) is link:
                self._flush(link)

        def work() -> None:
            try:
                bring_in(cold)
            except DiskFailed:
                """Sending it meets the same failure, and closes the connection."""
            self._loop.call_soon_threadsafe(back)

        self._thread_pool.submit("read", cold.file.path, work)

    # Ends

    def _lost_later(self, link: Link) -> None:
        """The socket failed while the node's wishes were carried out: the node learns it when it is at rest."""
        link.closing = True
        self._read_or_not(link)
        self._write_or_not(link, waits=False)
        self._loop.call_soon(self._lost, link)

    def _lost(self, link: Link) -> None:
        if self.links.get(link.number) is link:
            self._drop(link)
            self._up.left(link.number)

    def _drop(self, link: Link) -> None:
        del self.links[link.number]
        link.closing = True
        self._read_or_not(link)
        self._write_or_not(link, waits=False)
        link.sock.close()
        if link.number > 0:
            self.acceptor.left(link.host)

    def _sweep_idle(self) -> None:
        """Close clients that were silent for too long, and look again when the next may be."""
        if self._idle_ms <= 0:
            return
        now = clock().mono
        for link in [link for link in self.links.values() if link.number > 0]:
            if now - link.last_used >= self._idle_ms:
                self._lost(link)
        oldest = min((link.last_used for link in self.links.values() if link.number > 0), default=now)
        self._loop.call_later((oldest + self._idle_ms - now + 1) / 1000, self._sweep_idle)
