"""TLS handshakes on the event loop: a bounded number at a time, a few milliseconds per turn, each with a deadline.

- A handshake costs about a millisecond of public-key arithmetic, so a thousand new connections must not block the loop:
  sockets that are ready wait in a queue, and each turn takes `TURN_S` of it.
- A TLS object costs memory, so at most `MAX_OPEN` peers have one. A silent peer has none yet. If others wait,
  the oldest handshake that is older than `GRACE_S` gives way: peers that begin and then are silent hold nobody up.
- Handshakes that this broker begins itself are not counted.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from socket import socket

from tidelog.shell.tls_stream import TlsStream

MAX_OPEN = 256
TURN_S = 0.001
GRACE_S = 1.0
DEADLINE_S = 10.0
"""The maximum time from accept to the end of the handshake. Kafka has no such limit: a client that sends a byte now and
then keeps a connection open."""

Done = Callable[["TlsStream | str"], None]


@dataclass(eq=False, slots=True)
class Handshake:
    """`done` is called with the connected TLS socket, or with the reason of the failure."""

    sock: socket
    context: ssl.SSLContext
    server_name: str | None
    done: Done
    timer: asyncio.TimerHandle | None = None
    secured: TlsStream | None = None
    waits_for: str = ""
    """The event of the socket that the loop watches: `read`, `write` or none."""


class Handshakes:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._unfinished: set[Handshake] = set()
        self._open: dict[Handshake, float] = {}
        """Those of `MAX_OPEN`, the oldest first, with the time at which they began."""
        self._waiting: deque[Handshake] = deque()
        """Those that have sent something and wait to be opened; some may have ended."""
        self._ready: deque[Handshake] = deque()
        self._turn: asyncio.Handle | None = None
        self._eviction: asyncio.Handle | None = None

    def __repr__(self) -> str:
        return f"Handshakes({len(self._open)} open, {len(self._unfinished)} unfinished)"

    def begin(self, sock: socket, context: ssl.SSLContext, server_name: str | None, done: Done) -> Handshake:
        """Begin a handshake; `server_name` is None on the server side. `done` is never called within this call."""
        handshake = Handshake(sock, context, server_name, done)
        handshake.timer = self._loop.call_later(DEADLINE_S, self._end, handshake, "timed out")
        self._unfinished.add(handshake)
        if server_name is None:
            self._watch(handshake, "read")
        else:
            self._enqueue(handshake)
        return handshake

    def cancel(self, handshake: Handshake) -> None:
        """Close the connection, which is no longer needed."""
        handshake.done = lambda _: None
        self._end(handshake, "cancelled")

    def close(self) -> None:
        self._waiting.clear()
        for handshake in list(self._unfinished):
            self.cancel(handshake)

    def _on_ready(self, handshake: Handshake) -> None:
        """The socket can be read or written."""
        if handshake.server_name is None and handshake not in self._open:
            self._watch(handshake, "")
            self._waiting.append(handshake)
            self._start_waiting()
        else:
            self._enqueue(handshake)

    def _start_waiting(self) -> None:
        while self._waiting:
            if self._waiting[0] not in self._unfinished:
                self._waiting.popleft()
            elif len(self._open) < MAX_OPEN or self._evict_oldest():
                handshake = self._waiting.popleft()
                self._open[handshake] = self._loop.time()
                self._enqueue(handshake)
            else:
                return

    def _evict_oldest(self) -> bool:
        """End the oldest open handshake, or try again when it is old enough; return whether it was."""
        oldest, since = next(iter(self._open.items()))
        wait_s = since + GRACE_S - self._loop.time()
        if wait_s <= 0:
            self._finish(oldest, "it took too long while others waited")
            return True
        if self._eviction is None:
            self._eviction = self._loop.call_later(wait_s, self._evict_later)
        return False

    def _evict_later(self) -> None:
        self._eviction = None
        self._start_waiting()

    def _enqueue(self, handshake: Handshake) -> None:
        self._watch(handshake, "")
        self._ready.append(handshake)
        if self._turn is None:
            self._turn = self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        until = time.monotonic() + TURN_S
        while self._ready and time.monotonic() < until:
            handshake = self._ready.popleft()
            if handshake in self._unfinished:
                self._step(handshake)
        if self._ready and self._turn is None:
            self._turn = self._loop.call_soon(self._take_turn)

    def _step(self, handshake: Handshake) -> None:
        try:
            if handshake.secured is None:
                handshake.secured = TlsStream(handshake.sock, handshake.context, handshake.server_name)
            handshake.secured.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(handshake, "read")
        except ssl.SSLWantWriteError:
            self._watch(handshake, "write")
        except ssl.SSLCertVerificationError as problem:
            self._end(handshake, f"the peer's certificate is not trusted: {problem.verify_message}")
        except ssl.SSLError as problem:
            self._end(handshake, problem.reason or str(problem))
        except OSError as problem:
            self._end(handshake, problem.strerror or "the connection was closed")
        except ValueError:
            self._end(handshake, f"{handshake.server_name!r} is not a host name")
        else:
            self._end(handshake, handshake.secured)

    def _watch(self, handshake: Handshake, waits_for: str) -> None:
        """Watch the socket for this event; "" to stop watching."""
        if waits_for == handshake.waits_for:
            return
        sock = handshake.secured or handshake.sock
        if handshake.waits_for:
            (self._loop.remove_reader if handshake.waits_for == "read" else self._loop.remove_writer)(sock.fileno())
        if waits_for:
            add = self._loop.add_reader if waits_for == "read" else self._loop.add_writer
            add(sock.fileno(), self._on_ready, handshake)
        handshake.waits_for = waits_for

    def _end(self, handshake: Handshake, result: TlsStream | str) -> None:
        self._finish(handshake, result)
        self._start_waiting()

    def _finish(self, handshake: Handshake, result: TlsStream | str) -> None:
        assert handshake.timer is not None
        handshake.timer.cancel()
        self._watch(handshake, "")
        self._unfinished.discard(handshake)
        self._open.pop(handshake, None)
        if isinstance(result, str):
            (handshake.secured or handshake.sock).close()
        handshake.done(result)
