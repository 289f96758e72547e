"""A session with ZooKeeper over kazoo: the only file that depends on the internals of kazoo's connection.

kazoo runs the connection on its own threads. Four of its behaviours are changed here:

- An expired session stays expired. kazoo would open a new one by itself, and requests meant for the old session could
  run in the new one.
- The session is kept only while the process works (`is_alive`), as the SQLite store keeps its lease: a broker that
  hangs loses its session although kazoo's own thread runs on.
- An attempt to connect that is not answered is given up soon. kazoo would wait for a whole timeout, after which the
  session is over, and a server that has only just started may accept a connection and never answer on it.
- Watches are recursive and persistent, so an event has no watcher of its own: all events go to one function.
"""

import logging
import os
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, KazooException
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.connection import STOP_CONNECTING, ConnectionHandler
from kazoo.protocol.serialization import SASL, Connect, Watch
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry

from tidelog.errors import ApiError
from tidelog.security import digest_md5
from tidelog.shell.store.zookeeper_security import NO_SECURITY, Login, ZookeeperSecurity

UNANSWERED = (KazooException, KazooTimeoutError)
"""Raised by a request that was not answered, or that failed for a reason other than the content of the tree."""

ATTEMPT_SHARE, LEAST_ATTEMPT_S = 1 / 10, 1.0
"""The part of the timeout after which an attempt to connect is given up, and its minimum."""

SASL_URI, CNONCE_BYTES = "zookeeper/zk-sasl-md5", 16
"""The service and host that ZooKeeper uses for DIGEST-MD5, whatever its address."""

_log = logging.getLogger("tidelog.zookeeper")
_log.addHandler(logging.NullHandler())
_log.propagate = False


class Unreachable(Exception):
    """No session could be opened in time; the message says why, if that is known."""


class _Handler(SequentialThreadingHandler):
    """kazoo's threads and sockets, with a limit for attempts to connect, and TLS by the caller's context."""

    def __init__(self, attempt_s: float, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self.failure = ""
        """Why the last handshake failed."""
        self._attempt_s = attempt_s
        self._context = context

    def create_connection(self, *given: Any, **options: Any) -> Any:
        within_s = min(options.pop("timeout", self._attempt_s), self._attempt_s)
        sock = super().create_connection(*given, timeout=within_s, **options)
        if self._context is None:
            return sock
        try:
            return self._context.wrap_socket(sock, server_hostname=options["hostname"])
        except ssl.SSLCertVerificationError as error:
            self.failure = f"its certificate is not trusted: {error.verify_message}"
            raise
        except OSError as error:
            self.failure = f"the TLS handshake failed ({error})"
            raise

    def select(self, readable: Sequence[Any], *more: Any) -> Any:
        """TLS may have decrypted more than was read; the socket itself has nothing to read then."""
        decrypted = [sock for sock in readable if isinstance(sock, ssl.SSLSocket) and sock.pending()]
        return (decrypted, [], []) if decrypted else super().select(readable, *more)


class _Connection(ConnectionHandler):
    """kazoo's connection, with the changed behaviours."""

    def __init__(
        self,
        client: KazooClient,
        login: Login | None,
        attempt_s: float,
        changed: Callable[[str], None],
        is_alive: Callable[[], bool],
    ) -> None:
        retry = client._conn_retry.copy()  # noqa: SLF001 (see the head of this file)
        # With options kazoo calls `_authenticate_with_sasl`; its own would need a package that is not maintained.
        super().__init__(client, retry, logger=_log, sasl_options=None if login is None else {})
        self._login = login
        self.term_s = 0.0
        self.heard_at = time.monotonic()
        self._attempt_s = attempt_s
        self._changed = changed
        self._is_alive = is_alive

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        """Send one of the requests that open a connection.

        The granted timeout is set here: kazoo reports the connection before the login is over, and requests that are
        sent meanwhile wait for as long.
        """
        answer = super()._invoke(min(timeout, self._attempt_s), request, xid)
        if isinstance(request, Connect):
            self.term_s = answer[0].time_out / 1000
        return answer

    def _connect_attempt(self, host: str, address: str, port: int, retry: KazooRetry) -> Any:
        if not self._is_alive():
            return None
        status = super()._connect_attempt(host, address, port, retry)
        expired = self.client.client_state == KeeperState.EXPIRED_SESSION
        return STOP_CONNECTING if expired else status

    def _authenticate_with_sasl(self, _host: str, timeout: float) -> None:
        """Log in before any other request is sent."""
        assert self._login is not None
        exchange = digest_md5.client(*self._login, os.urandom(CNONCE_BYTES).hex(), SASL_URI)
        token, xid = next(exchange), 0
        with suppress(StopIteration):
            while True:
                xid += 1
                self._submit(SASL(token), timeout, xid)
                try:
                    header, buffer, offset = self._read_header(timeout)
                except ConnectionDropped:
                    raise AuthFailedError("ZooKeeper closed the connection") from None
                if header.err:
                    raise AuthFailedError(f"ZooKeeper refuses the user {self._login.user!r} (error {header.err})")
                answer, _ = SASL.deserialize(buffer, offset)
                try:
                    token = exchange.send(bytes(answer or b""))
                except ApiError as error:
                    raise AuthFailedError(str(error)) from None

    def _read_socket(self, read_timeout: float) -> Any:
        response = super()._read_socket(read_timeout)
        self.heard_at = time.monotonic()
        return response

    def _send_ping(self, connect_timeout: float) -> None:
        if self._is_alive():
            super()._send_ping(connect_timeout)

    def _read_watch_event(self, data: bytes, offset: int) -> None:
        watch, _ = Watch.deserialize(data, offset)
        self._changed(watch.path)


class Client:
    """One session. `changed`, `connected`, `suspended` and `lost` are called on kazoo's threads and must not block;
    `changed` receives the full ZooKeeper path."""

    def __init__(
        self,
        hosts: str,
        security: ZookeeperSecurity = NO_SECURITY,
        *,
        term_ms: int,
        changed: Callable[[str], None],
        connected: Callable[[], None],
        suspended: Callable[[], None],
        lost: Callable[[], None],
        is_alive: Callable[[], bool],
    ) -> None:
        patience = KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=1.0, max_jitter=0.1)
        attempt_s = max(LEAST_ATTEMPT_S, term_ms / 1000 * ATTEMPT_SHARE)
        self._handler = _Handler(attempt_s, security.context)
        self._kazoo = KazooClient(
            hosts, timeout=term_ms / 1000, connection_retry=patience, handler=self._handler, logger=_log
        )
        self._connection = _Connection(self._kazoo, security.login, attempt_s, changed, is_alive)
        self._kazoo._connection = self._connection  # noqa: SLF001
        callbacks = {KazooState.CONNECTED: connected, KazooState.SUSPENDED: suspended, KazooState.LOST: lost}
        self._kazoo.add_listener(lambda state: callbacks[state]())

    def __repr__(self) -> str:
        return f"Client({self._kazoo.hosts}, {self._kazoo.client_state})"

    @property
    def identity(self) -> tuple[int, bytes]:
        """The session and its password."""
        return self._kazoo._session_id, self._kazoo._session_passwd  # noqa: SLF001 (kazoo reports it only while connected)

    @property
    def term_s(self) -> float:
        """The session timeout that the servers granted: without a message for so long they end the session."""
        return self._connection.term_s

    @property
    def silent_in_s(self) -> float:
        """Seconds until the servers have been silent for a whole timeout."""
        return max(0.0, self._connection.heard_at + self.term_s - time.monotonic())

    @property
    def connected(self) -> bool:
        return bool(self._kazoo.connected)

    def start(self, within_s: float) -> None:
        """Open the session; Unreachable if no server answers in time."""
        if not self._kazoo.start_async().wait(within_s):
            self.close()
            raise Unreachable(self._handler.failure)

    def send(self, request: Any) -> Any:
        """kazoo's AsyncResult: `get(timeout)` gives the answer, or raises one of UNANSWERED."""
        result = self._kazoo.handler.async_result()
        self._kazoo._call(request, result)  # noqa: SLF001 (kazoo has no public way for a request of one's own)
        return result

    def close(self) -> None:
        """End the session. Unreachable servers are not waited for: they end it after its timeout."""
        if self.connected:
            self._stop()
        else:
            Thread(target=self._stop, name="zookeeper-close", daemon=True).start()

    def _stop(self) -> None:
        with suppress(*UNANSWERED, OSError):
            self._kazoo.stop()
            self._kazoo.close()


def end_session(hosts: str, identity: tuple[int, bytes], security: ZookeeperSecurity, within_s: float) -> None:
    """End another session, with its password, if the servers can be reached in time."""
    handler = _Handler(within_s, security.context)
    kazoo = KazooClient(hosts, client_id=identity, handler=handler, logger=_log)
    kazoo._connection = _Connection(kazoo, security.login, within_s, lambda _: None, lambda: True)  # noqa: SLF001
    if kazoo.start_async().wait(within_s):
        with suppress(*UNANSWERED, OSError):
            kazoo.stop()
            kazoo.close()
    else:
        Thread(target=kazoo.stop, name="zookeeper-close", daemon=True).start()
