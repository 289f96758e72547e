"""A relay in front of one broker: it can deliver a request of another broker long after that one closed the connection,
and after newer requests on its next connection.

The broker listens for other brokers on an address of its own and advertises the relay's. A relay has a thread with an
event loop; if brokers have network namespaces, it runs in the broker's, so that cuts apply to it, too. Only requests
are held, never answers, and only on connections that are open when the fault begins. The client id of a connection's
first request tells which broker opened it.
"""

import asyncio
import random
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from tidelog.api.registry import APIS
from tidelog.errors import ErrorCode, ProtocolViolation
from tidelog.wire.codec import RequestHeader, decode_header, decode_response
from tidelog.wire.frames import Buffers, FrameReader

BEHIND = "127.0.0.2"
"""The address on which brokers listen for their relays, with the port of the relay. Nothing else uses this loopback
address, so the port is free there."""

LINGER_S = 5.0
"""How long a connection waits for answers to late requests."""

_CLIENT_ID = re.compile(r"broker-(\d+)")
_READ_BYTES = 64 * 1024
_FRAME_BYTES = 100 * 1024 * 1024


@dataclass(slots=True)
class LateRequest:
    """A request that arrived after its sender had closed the connection; times are monotonic. `answer` is the error
    code of the whole response, NONE if the API has none, None if there was no answer."""

    api: str
    source: int
    target: int
    sent_at: float
    arrived_at: float
    answer: str | None = None


@dataclass(eq=False, slots=True)
class RelayedConnection:
    """One connection. `source` is known with the first request. The next bytes are held for `hold_s`, unless None;
    `held_requests` are those that are complete with the held bytes, `unanswered` those that arrived late, by
    correlation id."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    inner_reader: asyncio.StreamReader
    inner_writer: asyncio.StreamWriter
    requests: FrameReader
    answers: FrameReader
    source: int | None = None
    hold_s: float | None = None
    timer: asyncio.TimerHandle | None = None
    held: list[bytes] = field(default_factory=list)
    held_requests: list[tuple[RequestHeader, float]] = field(default_factory=list)
    sender_closed: bool = False
    unanswered: dict[int, tuple[RequestHeader, LateRequest]] = field(default_factory=dict)


class Relay:
    """Relays to `broker`, on a free port of `host`. `enter` is called on the relay's thread before it opens anything.
    Use as a context manager; its methods are for other threads."""

    def __init__(self, broker: int, host: str, *, seed: int = 0, enter: Callable[[], None] | None = None) -> None:
        self.broker = broker
        self.host = host
        self.port = 0
        self.late: list[LateRequest] = []
        self._enter = enter
        self._random = random.Random(seed)  # noqa: S311 (chance that can be repeated)
        self._buffers = Buffers()
        self._connections: dict[RelayedConnection, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name=f"relay-{broker}", daemon=True)
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def __repr__(self) -> str:
        return f"Relay({self.host}:{self.port} to broker {self.broker}, {len(self._connections)} connections)"

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        assert self._stop is not None
        self._call_threadsafe(self._stop.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def hold(self, source: int, at_most_s: float) -> None:
        """Hold what the broker `source` sends next on each of its open connections, for half of this time up to all of
        it, so that connections deliver in another order than they were sent."""
        self._call_threadsafe(self._hold, source, at_most_s)

    def stop_holding(self, source: int) -> None:
        """Hold nothing more. Requests that are already held arrive when their time is up."""
        self._call_threadsafe(self._stop_holding, source)

    def deliver(self) -> None:
        """Deliver what is held now."""
        self._call_threadsafe(self._deliver)

    def _call_threadsafe(self, function: Callable[..., None], *arguments: object) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed: it has ended
            self._loop.call_soon_threadsafe(function, *arguments)

    # On the relay's thread.

    def _run(self) -> None:
        try:
            if self._enter is not None:
                self._enter()
            asyncio.run(self._serve())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accept, self.host, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for connection in self._connections:
            connection.writer.transport.abort()
            connection.inner_writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._loop is not None
        task = self._loop.create_task(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner = await asyncio.open_connection(BEHIND, self.port)
        except OSError:  # the broker is not running
            writer.transport.abort()
            return
        requests, answers = (FrameReader(_FRAME_BYTES, self._buffers) for _ in range(2))
        connection = RelayedConnection(reader, writer, *inner, requests, answers)
        self._connections[connection] = None
        try:
            await asyncio.gather(self._forward_requests(connection), self._forward_answers(connection))
        finally:
            del self._connections[connection]
            connection.writer.close()
            connection.inner_writer.close()

    async def _forward_requests(self, connection: RelayedConnection) -> None:
        while data := await _read(connection.reader):
            self._record_requests(connection, data)
            if connection.hold_s is None:
                await _write(connection.inner_writer, data)
            else:
                self._hold_bytes(connection, data)
        connection.sender_closed = True
        connection.writer.close()
        if not connection.held:
            connection.inner_writer.close()

    async def _forward_answers(self, connection: RelayedConnection) -> None:
        while data := await _read(connection.inner_reader):
            for frame in connection.answers.feed(data):
                self._record_answer(connection, frame)
            if not connection.sender_closed:
                await _write(connection.writer, data)
        connection.held.clear()  # the broker is gone: unsent requests are lost
        connection.inner_writer.close()
        connection.writer.close()

    def _record_requests(self, connection: RelayedConnection, data: bytes) -> None:
        for frame in connection.requests.feed(data):
            header = decode_header(frame)
            named = _CLIENT_ID.fullmatch(header.client_id or "")
            connection.source = int(named[1]) if named else None
            if connection.hold_s is not None:
                connection.held_requests.append((header, time.monotonic()))

    def _record_answer(self, connection: RelayedConnection, frame: memoryview) -> None:
        header, late = connection.unanswered.pop(int.from_bytes(frame[:4]), (None, None))
        if header is None or late is None:
            return
        with suppress(ProtocolViolation):
            _, response = decode_response(header.api_key, header.api_version, frame)
            late.answer = ErrorCode(getattr(response, "error_code", 0)).name
        if not connection.unanswered:
            connection.inner_writer.close()

    def _hold(self, source: int, at_most_s: float) -> None:
        for connection in self._connections:
            if connection.source == source and connection.hold_s is None:
                connection.hold_s = at_most_s * self._random.uniform(0.5, 1.0)

    def _stop_holding(self, source: int) -> None:
        for connection in self._connections:
            if connection.source == source and not connection.held:
                connection.hold_s = None

    def _deliver(self) -> None:
        for connection in self._connections:
            self._release(connection)

    def _hold_bytes(self, connection: RelayedConnection, data: bytes) -> None:
        if not connection.held:
            assert self._loop is not None
            assert connection.hold_s is not None
            connection.timer = self._loop.call_later(connection.hold_s, self._release, connection)
        connection.held.append(data)

    def _release(self, connection: RelayedConnection) -> None:
        """Deliver the held bytes. They are late if their sender has closed the connection; otherwise this was only a
        delay."""
        held, connection.held = connection.held, []
        held_requests, connection.held_requests = connection.held_requests, []
        connection.hold_s = None
        if not held:
            return
        assert connection.timer is not None
        connection.timer.cancel()
        connection.inner_writer.write(b"".join(held))
        if connection.sender_closed:
            self._record_late(connection, held_requests)

    def _record_late(self, connection: RelayedConnection, held_requests: list[tuple[RequestHeader, float]]) -> None:
        assert self._loop is not None
        for header, sent_at in held_requests:
            api = APIS[header.api_key].name if header.api_key in APIS else str(header.api_key)
            late = LateRequest(api, connection.source or 0, self.broker, sent_at, time.monotonic())
            self.late.append(late)
            connection.unanswered[header.correlation_id] = header, late
        if connection.unanswered:
            self._loop.call_later(LINGER_S, connection.inner_writer.close)
        else:
            connection.inner_writer.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """The received bytes; empty if the connection has ended."""
    try:
        return await reader.read(_READ_BYTES)
    except OSError:
        return b""


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(OSError):  # the other end is gone; its reader notices
        writer.write(data)
        await writer.drain()
