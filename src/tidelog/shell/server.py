"""The event loop that drives a `Node`: sockets are read and written here, and every effect is carried out here.

- Inputs are never nested: what happens while effects are carried out comes back as a later callback.
- All effects of one input are carried out before the next; the Sends of one input are flushed together.
- There is one timer, for `node.next_deadline`, and no task or future anywhere.
- Errors: a peer's fault closes its connection with one log line; the node's own ends the process.
"""

import asyncio
import socket
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from tidelog.config.broker import BrokerConfig
from tidelog.effects import (
    Close,
    Connect,
    Effect,
    Event,
    Pause,
    Remove,
    Replace,
    Send,
    Stop,
    Store,
    Sync,
)
from tidelog.errors import DiskFailed, ProtocolViolation
from tidelog.model import Time
from tidelog.ports import Disk, Operation
from tidelog.shell.chores import Chores
from tidelog.shell.dialer import Dialer
from tidelog.shell.doors import Doors
from tidelog.shell.lines import Lines
from tidelog.shell.link import Link
from tidelog.shell.outgoing import ShortSlice, bring_in
from tidelog.wire.frames import Buffers, FrameReader

READS_A_TURN = 8
ANONYMOUS = "User:ANONYMOUS"


class Actor(Protocol):
    """What the server needs of a node: see `node.node.Node`. Every input returns the effects to carry out."""

    @property
    def next_deadline(self) -> int | None: ...

    def connected(self, connection: int, listener: str, peer: str, principal: str, now: Time) -> Sequence[Effect]: ...

    def connect_failed(self, connection: int, reason: str, now: Time) -> Sequence[Effect]: ...

    def receive(self, connection: int, frames: Sequence[memoryview], now: Time) -> Sequence[Effect]: ...

    def disconnected(self, connection: int, now: Time) -> Sequence[Effect]: ...

    def synced(self, token: int, now: Time) -> Sequence[Effect]: ...

    def disk_failed(self, token: int, folder: str, reason: str, now: Time) -> Sequence[Effect]: ...

    def wake(self, now: Time) -> Sequence[Effect]: ...


def clock() -> Time:
    return Time(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


class Server:
    """One node on one event loop. `submit` hands operations to the metadata store."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        node: Actor,
        config: BrokerConfig,
        disk: Disk,
        *,
        lines: Lines,
        submit: Callable[[int, Sequence[Operation]], None],
    ) -> None:
        self.exit_code = 0
        self.stopping = False
        self.ticked_at = clock().mono
        self.events: Counter[str] = Counter()
        self._loop = loop
        self._node = node
        self._config = config
        self._disk = disk
        self._lines = lines
        self._links: dict[int, Link] = {}
        self._buffers = Buffers()
        self._chores = Chores()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._doors = Doors(loop, config, lines, self._enter)
        self._dialer = Dialer(loop, self._chores, config.socket_connection_setup_timeout_ms)
        self._carriers: dict[type, Callable[[Any], None]] = {
            Close: self._close,
            Pause: self._pause,
            Connect: self._connect,
            Sync: self._sync,
            Replace: self._replace,
            Remove: self._remove,
            Store: lambda store: submit(store.token, store.operations),
            Stop: self._stop,
            Event: self._event,
        }
        loop.set_exception_handler(self._crashed)
        self._sweep_idle()

    def __repr__(self) -> str:
        return f"Server({len(self._links)} connections, {self._chores})"

    # Inputs

    def listen(self, listener: str, sock: socket.socket, *, limited: bool) -> None:
        """Serve connections to this bound socket. `limited`: max.connections holds here."""
        self._doors.open(listener, sock, limited=limited)

    def tell(self, entry: Callable[..., Sequence[Effect]], *arguments: object) -> None:
        """Give the node an input, and carry out what it wishes. On the loop only."""
        self._carry_out(entry(*arguments, clock()))

    def tell_later(self, entry: Callable[..., Sequence[Effect]], *arguments: object) -> None:
        """The same from any thread, or while effects are being carried out."""
        self._loop.call_soon_threadsafe(partial(self.tell, entry, *arguments))

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """Run a function on the loop, from any thread."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def complain(self, kind: str, reason: str) -> None:
        """An error line of the shell's own."""
        self._lines.write("error", kind, {"reason": reason})

    def tick(self) -> None:
        """The loop does its work; the store's lease is renewed only while it does."""
        self.ticked_at = clock().mono

    def close(self) -> None:
        """After the loop ended: let go of every socket and thread."""
        self._doors.close()
        self._dialer.close()
        for link in list(self._links.values()):
            self._drop(link)
        self._chores.stop()

    # Effects

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        touched: list[Link] = []
        for effect in effects:
            if type(effect) is Send:
                link = self._links.get(effect.connection)
                if link is not None and not link.closing:
                    link.outgoing.put(effect.parts)
                    touched.append(link)
            else:
                self._carriers[type(effect)](effect)
        for link in touched:
            if link.may_flush:
                self._flush(link)
            else:
                self._judge(link)
        self._set_timer()

    def _set_timer(self) -> None:
        """The timer may ring too early, never too late: a deadline that moved on costs one idle wake-up."""
        deadline = self._node.next_deadline
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        delay_ms = max(0, deadline - clock().mono)
        self._timer = self._loop.call_later(delay_ms / 1000, self._timer_rang)

    def _timer_rang(self) -> None:
        self._timer = None
        deadline = self._node.next_deadline
        if deadline is not None and deadline <= clock().mono:
            self.tell(self._node.wake)
        else:
            self._set_timer()

    def _close(self, effect: Close) -> None:
        link = self._links.get(effect.connection)
        if link is None:
            self._dialer.forget(effect.connection)
            return
        if link.may_flush:
            self._flush(link)
        if link.number in self._links:
            link.closing = True
            self._finish(link)

    def _finish(self, link: Link) -> None:
        """A closing connection goes once its last bytes are sent."""
        self._read_or_not(link)
        if not link.outgoing.unsent:
            self._drop(link)

    def _pause(self, effect: Pause) -> None:
        link = self._links.get(effect.connection)
        if link is not None:
            link.asked_to_pause = effect.paused
            self._read_or_not(link)

    def _connect(self, effect: Connect) -> None:
        number = effect.connection

        def done(sock: socket.socket | str) -> None:
            if isinstance(sock, str):
                self.tell(self._node.connect_failed, number, sock)
            else:
                self._join(number, sock, "", effect.host, "")

        self._dialer.dial(number, effect.host, effect.port, done)

    def _sync(self, effect: Sync) -> None:
        def work() -> None:
            for file in effect.files:
                file.sync()

        key = effect.files[0].path.rpartition("/")[0] if effect.files else ""
        self._chores.submit("sync", key, partial(self._durably, effect.token, work))

    def _replace(self, effect: Replace) -> None:
        def work() -> None:
            try:
                self._disk.replace(effect.path, effect.content)
            except FileNotFoundError:
                """The folder was removed or renamed meanwhile, and what the file would say with it."""

        key = effect.path.rpartition("/")[0]
        self._chores.submit("sync", key, partial(self._durably, effect.token, work))

    def _durably(self, token: int, work: Callable[[], None]) -> None:
        """On a thread: do it, and tell the node how it went."""
        try:
            work()
        except DiskFailed as failed:
            self.tell_later(self._node.disk_failed, token, failed.folder, failed.reason)
        except Exception as error:
            self._loop.call_soon_threadsafe(self._fail, error)
        else:
            self.tell_later(self._node.synced, token)

    def _remove(self, effect: Remove) -> None:
        def work() -> None:
            try:
                self._disk.remove(effect.path)
            except DiskFailed as failed:
                self._loop.call_soon_threadsafe(self._lines.write, "error", "disk.remove", {"reason": str(failed)})

        self._chores.submit("remove", "", work)

    def _event(self, effect: Event) -> None:
        self.events[effect.kind] += 1
        self._lines.event(effect)

    def _stop(self, effect: Stop) -> None:
        self.stopping = True
        if effect.reason:
            self.exit_code = 1
            self._lines.write("error", "broker.stopped", {"reason": effect.reason})
        self._loop.stop()

    # Connections

    def _enter(self, number: int, sock: socket.socket, listener: str, host: str) -> None:
        """Somebody connected to one of the listeners."""
        self._join(number, sock, listener, host, ANONYMOUS)

    def _join(self, number: int, sock: socket.socket, listener: str, host: str, principal: str) -> None:
        reader = FrameReader(self._config.socket_request_max_bytes, self._buffers)
        link = self._links[number] = Link(number, sock, listener, host, reader)
        link.last_used = clock().mono
        self._read_or_not(link)
        self.tell(self._node.connected, number, listener, host, principal)

    def _read_or_not(self, link: Link) -> None:
        if link.may_read != link.reading:
            link.reading = not link.reading
            if link.reading:
                self._loop.add_reader(link.fd, self._readable, link)
            else:
                self._loop.remove_reader(link.fd)

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
            except OSError as error:
                return self._lost(link, error.strerror or str(error))
            if count == 0:
                return self._lost(link, "")
            try:
                frames = reader.received(count)
                if frames:
                    self._carry_out(self._node.receive(link.number, frames, now))
            except ProtocolViolation as violation:
                return self._violated(link, violation)
            if count < len(space) or not link.reading:
                return None
        return None

    def _violated(self, link: Link, violation: ProtocolViolation) -> None:
        fields = {"listener": link.listener, "peer": link.host, "reason": violation}
        self._lines.write("warning", "connection.violation", fields)
        self._lost(link, str(violation))

    def _flush(self, link: Link) -> None:
        outgoing = link.outgoing
        try:
            done = outgoing.flush()
        except ShortSlice as short:
            self._lines.write("error", "connection.short_slice", {"peer": link.host, "reason": short})
            return self._lost_later(link)
        except OSError:
            return self._lost_later(link)
        except DiskFailed as failed:
            self._lines.write("error", "disk.read", {"reason": failed})
            return self._lost_later(link)
        self._write_or_not(link, waits=not done and outgoing.cold is None)
        if outgoing.cold is not None:
            self._bring_in(link)
        return self._finish(link) if link.closing else self._judge(link)

    def _judge(self, link: Link) -> None:
        """Who does not read what it is sent is not read from."""
        link.judge_congestion()
        self._read_or_not(link)

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
            if self._links.get(link.number) is link:
                self._flush(link)

        def work() -> None:
            try:
                bring_in(cold)
            except DiskFailed:
                """Sending it meets the same failure, and closes the connection."""
            self._loop.call_soon_threadsafe(back)

        self._chores.submit("read", cold.file.path, work)

    def _lost_later(self, link: Link) -> None:
        """The socket failed while effects were carried out: the node learns it when it is at rest."""
        if not link.closing:
            link.closing = True
            self._read_or_not(link)
            self._write_or_not(link, waits=False)
        self._loop.call_soon(self._lost, link, "")

    def _lost(self, link: Link, reason: str) -> None:
        if self._links.get(link.number) is link:
            self._drop(link)
            self.tell(self._node.disconnected, link.number)
            if reason:
                self._lines.write("debug", "connection.lost", {"peer": link.host, "reason": reason})

    def _drop(self, link: Link) -> None:
        del self._links[link.number]
        link.closing = True
        self._read_or_not(link)
        self._write_or_not(link, waits=False)
        link.sock.close()
        if link.number > 0:
            self._doors.left(link.host)

    def _sweep_idle(self) -> None:
        """Close clients that were silent for connections.max.idle.ms, and look again when the next may be."""
        idle_ms = self._config.connections_max_idle_ms
        if idle_ms <= 0:
            return
        now = clock().mono
        inbound = [link for link in self._links.values() if link.number > 0]
        for link in inbound:
            if now - link.last_used >= idle_ms:
                self._lost(link, "idle")
        oldest = min((link.last_used for link in inbound if not link.closing), default=now)
        self._loop.call_later((oldest + idle_ms - now + 1) / 1000, self._sweep_idle)

    # The end

    def _crashed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Anything that escapes a callback is a fault of this program: what it holds can no longer be trusted."""
        error = context.get("exception")
        self._fail(error if isinstance(error, BaseException) else RuntimeError(str(context.get("message"))))

    def _fail(self, error: BaseException) -> None:
        traceback.print_exception(error)
        self._lines.write("error", "broker.crashed", {"reason": repr(error)})
        self.exit_code = 1
        self._loop.stop()
