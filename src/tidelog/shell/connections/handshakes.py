"""TLS handshakes on the event loop: a few at a time, a few milliseconds a turn, and none for longer than its deadline.

A handshake costs about a millisecond of public-key arithmetic. A thousand connections at once must not hold the loop:
whose socket is ready waits in a queue, of which a turn takes `TURN_S`. Connections beyond `AT_A_TIME` wait without
a TLS object, which is what costs memory.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from socket import socket

from tidelog.shell.connections import tls

AT_A_TIME = 256
TURN_S = 0.004
DEADLINE_S = 10.0
"""From the connection's first moment to the end of its handshake. Kafka has none: a byte now and then keeps it open."""

Done = Callable[["ssl.SSLSocket | str"], None]


@dataclass(eq=False, slots=True)
class Handshake:
    """`done` gets the connected TLS socket, or the reason why there is none."""

    sock: socket
    context: ssl.SSLContext
    server_name: str | None
    done: Done
    timer: asyncio.TimerHandle | None = None
    secured: ssl.SSLSocket | None = None
    waits_for: str = ""
    """`read` or `write` while the loop watches the socket."""


class Handshakes:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: set[Handshake] = set()
        self._waiting: deque[Handshake] = deque()
        self._ready: deque[Handshake] = deque()
        self._turn: asyncio.Handle | None = None

    def __repr__(self) -> str:
        return f"Handshakes({len(self._open)} open, {len(self._waiting)} waiting)"

    def begin(self, sock: socket, context: ssl.SSLContext, server_name: str | None, done: Done) -> Handshake:
        """`server_name` is None on the side that serves. `done` is never called within this call."""
        handshake = Handshake(sock, context, server_name, done)
        handshake.timer = self._loop.call_later(DEADLINE_S, self._end, handshake, "timed out")
        self._waiting.append(handshake)
        self._start_waiting()
        return handshake

    def forget(self, handshake: Handshake) -> None:
        """Nobody wants this connection any more: close it."""
        handshake.done = lambda _: None
        self._end(handshake, "forgotten")

    def close(self) -> None:
        for handshake in (*self._open, *self._waiting):
            self.forget(handshake)

    def _start_waiting(self) -> None:
        while self._waiting and len(self._open) < AT_A_TIME:
            handshake = self._waiting.popleft()
            self._open.add(handshake)
            self._be_ready(handshake)

    def _be_ready(self, handshake: Handshake) -> None:
        self._watch(handshake, "")
        self._ready.append(handshake)
        if self._turn is None:
            self._turn = self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        until = time.monotonic() + TURN_S
        while self._ready and time.monotonic() < until:
            handshake = self._ready.popleft()
            if handshake in self._open:
                self._step(handshake)
        if self._ready and self._turn is None:
            self._turn = self._loop.call_soon(self._take_turn)

    def _step(self, handshake: Handshake) -> None:
        try:
            if handshake.secured is None:
                handshake.secured = tls.wrap(handshake.sock, handshake.context, handshake.server_name)
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
        else:
            self._end(handshake, handshake.secured)

    def _watch(self, handshake: Handshake, waits_for: str) -> None:
        """Be called when the socket is ready; '' for not at all."""
        if waits_for == handshake.waits_for:
            return
        sock = handshake.secured or handshake.sock
        if handshake.waits_for:
            (self._loop.remove_reader if handshake.waits_for == "read" else self._loop.remove_writer)(sock.fileno())
        if waits_for:
            add = self._loop.add_reader if waits_for == "read" else self._loop.add_writer
            add(sock.fileno(), self._be_ready, handshake)
        handshake.waits_for = waits_for

    def _end(self, handshake: Handshake, result: ssl.SSLSocket | str) -> None:
        assert handshake.timer is not None
        handshake.timer.cancel()
        self._watch(handshake, "")
        if handshake in self._open:
            self._open.discard(handshake)
        elif handshake in self._waiting:
            self._waiting.remove(handshake)
        if isinstance(result, str):
            (handshake.secured or handshake.sock).close()
        handshake.done(result)
        self._start_waiting()
