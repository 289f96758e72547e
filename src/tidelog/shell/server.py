"""The event loop that drives a `Node`: it feeds inputs in and carries out every effect that comes back.

- Inputs are never nested: an event that occurs while effects are carried out arrives in a later callback.
- All effects of one input are carried out before the next input; the Sends of one input are flushed together.
- There is one timer, for `node.next_deadline`, and no task or future anywhere.
- A failure inside the node ends the process, because its state can no longer be trusted.
"""

import asyncio
import socket
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from tidelog.config.broker import BrokerConfig
from tidelog.effects import (
    Close,
    Compute,
    Connect,
    Effect,
    Event,
    Examine,
    FetchKeys,
    FetchToken,
    Pause,
    PutBack,
    Remove,
    Replace,
    Retain,
    Send,
    SetConnectionLimits,
    SetFrameLimit,
    SetListenerOptions,
    SetLogLevels,
    Stop,
    Store,
    Sync,
    SyncFolders,
    carried_out,
)
from tidelog.log.examination import Verdict
from tidelog.model import Time
from tidelog.ports import Disk, Operation
from tidelog.shell.connections.arrivals import Arrivals
from tidelog.shell.connections.dialer import Dialer
from tidelog.shell.connections.handshakes import Handshake
from tidelog.shell.connections.tls_listeners import TlsListeners
from tidelog.shell.connections.traffic import Traffic, clock
from tidelog.shell.event_logger import EventLogger
from tidelog.shell.thread_pool import DiskWorker, ThreadPool
from tidelog.shell.tls_stream import TlsStream


class NodeInputs(Protocol):
    """The inputs of a node: see `node.node.Node`. Each returns the effects to carry out."""

    @property
    def next_deadline(self) -> int | None: ...

    @property
    def knows_cluster(self) -> bool: ...

    def connected(self, connection: int, listener: str, peer: str, principal: str, now: Time) -> Sequence[Effect]: ...

    def connect_failed(self, connection: int, reason: str, now: Time) -> Sequence[Effect]: ...

    def receive(self, connection: int, frames: Sequence[memoryview], now: Time) -> Sequence[Effect]: ...

    def disconnected(self, connection: int, now: Time) -> Sequence[Effect]: ...

    def synced(self, token: int, now: Time) -> Sequence[Effect]: ...

    def disk_failed(self, token: int, folder: str, reason: str, now: Time) -> Sequence[Effect]: ...

    def disk_full(self, folder: str, reason: str, now: Time) -> Sequence[Effect]: ...

    def keys_fetched(self, url: str, text: str, problem: str, now: Time) -> Sequence[Effect]: ...

    def token_fetched(self, text: str, problem: str, now: Time) -> Sequence[Effect]: ...

    def examined(self, token: int, verdict: Verdict, now: Time) -> Sequence[Effect]: ...

    def computed(self, token: int, result: Any, now: Time) -> Sequence[Effect]: ...

    def wake(self, now: Time) -> Sequence[Effect]: ...


class Server:
    """One node on one event loop. `submit` hands operations to the metadata store."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        node: NodeInputs,
        config: BrokerConfig,
        disk: Disk,
        *,
        logger: EventLogger,
        tls: TlsListeners,
        submit: Callable[[int, Sequence[Operation]], None],
        fetch_keys: Callable[[str, Callable[[str, str, str], None]], None],
        fetch_token: Callable[[Callable[[str, str], None]], None],
        now: Callable[[], Time] = clock,
    ) -> None:
        self.exit_code = 0
        self.stopping = False
        """Set when the node has stopped and its logs are closed: callbacks that are still queued on the loop must not
        reach it."""
        self._loop = loop
        self._now = now
        self._node = node
        self._logger = logger
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0
        self._waiting_listeners: list[tuple[str, socket.socket]] = []
        """The clients' listeners before the node knows the cluster; connections wait in the kernel's backlog."""
        self._thread_pool = ThreadPool()
        self._traffic = Traffic(loop, config, logger, self._thread_pool, self, tls, now)
        self._tls = tls
        self._handshakes: dict[int, Handshake] = {}
        """With other brokers, by the number of their connection."""
        self._dialer = Dialer(loop, self._thread_pool, config.socket_connection_setup_timeout_ms)
        disk_worker = DiskWorker(disk, self._thread_pool, self)
        self._effect_handlers: dict[type, Callable[[Any], None]] = {
            Send: lambda send: self._traffic.put(send.connection, send.parts),
            Close: self._close,
            Pause: lambda pause: self._traffic.pause(pause.connection, paused=pause.paused),
            Retain: lambda retain: self._traffic.retain(retain.connection, retain.size),
            PutBack: lambda effect: self._traffic.put_back(effect.connection, effect.frames),
            SetConnectionLimits: self._traffic.acceptor.set_limits,
            SetFrameLimit: lambda effect: self._traffic.limit_frames(effect.connection, effect.limit),
            SetListenerOptions: lambda effect: tls.change(effect.options),
            SetLogLevels: lambda effect: logger.set_levels(effect.levels),
            FetchKeys: lambda effect: fetch_keys(effect.url, self._keys_fetched),
            FetchToken: lambda _: fetch_token(self._token_fetched),
            Connect: self._connect,
            Sync: disk_worker.sync,
            SyncFolders: disk_worker.sync_folders,
            Examine: disk_worker.examine,
            Compute: self._compute,
            Replace: disk_worker.replace,
            Remove: disk_worker.remove,
            Store: lambda store: submit(store.token, store.operations),
            Stop: self._stop,
            Event: self._event,
        }
        loop.set_exception_handler(self._on_loop_exception)

    def __repr__(self) -> str:
        return f"Server({self._traffic}, {self._thread_pool})"

    @property
    def events(self) -> Counter[str]:
        """How many events of each kind there were."""
        return self._logger.counts

    @property
    def arrivals(self) -> Arrivals:
        """The requests that are arriving."""
        return self._traffic.arrivals

    # For the owner of the loop

    def listen(self, listener: str, sock: socket.socket, *, limited: bool) -> None:
        """Serve connections to this bound socket. `limited`: the socket is for clients, and max.connections applies.

        Clients are served only once the node knows the cluster, as in Kafka (`SocketServer.enableRequestProcessing`): a
        client that receives metadata without brokers may drop all brokers it knew, as librdkafka does, and never
        recover.
        """
        if limited:
            self._waiting_listeners.append((listener, sock))
            self._serve_clients()
        else:
            self._traffic.acceptor.open(listener, sock, limited=False)

    def _serve_clients(self) -> None:
        if self._node.knows_cluster:
            for listener, sock in self._waiting_listeners:
                self._traffic.acceptor.open(listener, sock, limited=True)
            self._waiting_listeners.clear()

    def notify(self, entry: Callable[..., Sequence[Effect]], *arguments: object) -> None:
        """Feed an input to the node and carry out the effects. On the loop only."""
        if not self.stopping:
            self._carry_out(entry(*arguments, self._now()))

    def notify_threadsafe(self, entry: Callable[..., Sequence[Effect]], *arguments: object) -> None:
        """The same from any thread, or while effects are being carried out."""
        self._loop.call_soon_threadsafe(partial(self.notify, entry, *arguments))

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """Run a function on the loop, from any thread."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def log_error(self, kind: str, reason: str) -> None:
        """Log an error of the shell itself."""
        self._logger.write("error", kind, {"reason": reason})

    def close(self) -> None:
        """Release all sockets and threads, after the loop has ended."""
        self._dialer.close()
        self._traffic.close_all()
        self._thread_pool.stop()

    # `traffic.ConnectionObserver`, called on the loop

    def connection_opened(self, number: int, listener: str, host: str, principal: str) -> None:
        self.notify(self._node.connected, number, listener, host, principal)

    def frames_received(self, number: int, frames: Sequence[memoryview], now: Time) -> None:
        if not self.stopping:
            self._carry_out(self._node.receive(number, frames, now))

    def connection_closed(self, number: int) -> None:
        self.notify(self._node.disconnected, number)

    # `thread_pool.DiskObserver`, called on the disk's threads

    def synced(self, token: int) -> None:
        self.notify_threadsafe(self._node.synced, token)

    def disk_failed(self, token: int, folder: str, reason: str) -> None:
        self.notify_threadsafe(self._node.disk_failed, token, folder, reason)

    def disk_full(self, folder: str, reason: str) -> None:
        self.notify_threadsafe(self._node.disk_full, folder, reason)

    def examined(self, token: int, verdict: Verdict) -> None:
        self.notify_threadsafe(self._node.examined, token, verdict)

    def _keys_fetched(self, url: str, text: str, problem: str) -> None:
        """Called on a thread of its own."""
        self.notify_threadsafe(self._node.keys_fetched, url, text, problem)

    def _token_fetched(self, text: str, problem: str) -> None:
        """Called on a thread of its own."""
        self.notify_threadsafe(self._node.token_fetched, text, problem)

    def removal_failed(self, reason: str) -> None:
        self.call(self.log_error, "disk.remove", reason)

    def crashed(self, error: BaseException) -> None:
        self.call(self._fail, error)

    # Effects

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        effect_handlers = self._effect_handlers
        for effect in effects:
            effect_handlers[type(effect)](effect)
        self._traffic.flush()
        if self._waiting_listeners:
            self._serve_clients()
        self._set_timer()

    def _set_timer(self) -> None:
        """The timer may fire too early, never too late: a deadline that moved back costs one idle wake-up."""
        deadline = self._node.next_deadline
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        delay_ms = deadline - self._now().mono
        if delay_ms <= 0:
            self._timer = self._loop.call_soon(self._wake)
        else:
            self._timer = self._loop.call_later(delay_ms / 1000, self._timer_rang)

    def _wake(self) -> None:
        """The deadline had passed when the timer was set, so it is not checked again."""
        self._timer = None
        self.notify(self._node.wake)

    def _timer_rang(self) -> None:
        self._timer = None
        deadline = self._node.next_deadline
        if deadline is not None and deadline <= self._now().mono:
            self.notify(self._node.wake)
        else:
            self._set_timer()

    def _close(self, effect: Close) -> None:
        number = effect.connection
        if self._traffic.close(number):
            return
        handshake = self._handshakes.pop(number, None)
        if handshake is not None:
            self._traffic.broker_handshakes.cancel(handshake)
        else:
            self._dialer.cancel(number)

    def _connect(self, effect: Connect) -> None:
        """Dial, and where the listener uses TLS, shake hands."""
        number = effect.connection
        context = self._tls.client(effect.listener)

        def dialed(sock: socket.socket | str) -> None:
            if isinstance(sock, str):
                self.notify(self._node.connect_failed, number, sock)
            elif context is None:
                self._traffic.add(number, sock, "", effect.host, "")
            else:
                self._handshakes[number] = self._traffic.broker_handshakes.begin(sock, context, effect.host, secured)

        def secured(sock: TlsStream | str) -> None:
            del self._handshakes[number]
            if isinstance(sock, str):
                self._logger.write("warning", "connection.handshake_failed", {"peer": effect.host, "reason": sock})
                self.notify(self._node.connect_failed, number, sock)
            else:
                self._traffic.add(number, sock, "", effect.host, "")

        self._dialer.dial(number, effect.host, effect.port, dialed)

    def _compute(self, effect: Compute) -> None:
        def work() -> None:
            if self.stopping:
                return
            try:
                result = carried_out(effect.function, effect.arguments)
            except Exception as error:
                self.crashed(error)
            else:
                self.notify_threadsafe(self._node.computed, effect.token, result)

        self._thread_pool.submit("compute", effect.lane, work)

    def _event(self, effect: Event) -> None:
        self._logger.event(effect)

    def _stop(self, effect: Stop) -> None:
        self.stopping = True
        if effect.reason:
            self.exit_code = 1
            self.log_error("broker.stopped", effect.reason)
        self._loop.stop()

    # Faults

    def _on_loop_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception that escapes a callback is a bug in Tidelog."""
        error = context.get("exception")
        self._fail(error if isinstance(error, BaseException) else RuntimeError(str(context.get("message"))))

    def _fail(self, error: BaseException) -> None:
        traceback.print_exception(error)
        self.log_error("broker.crashed", repr(error))
        self.exit_code = 1
        self._loop.stop()
