"""One broker on its own event loop: opened, run until it stops, closed. A process hosts one, a test several.

One ExitStack holds everything that is opened, in order of dependency.
"""

import os
import socket
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import uvloop

from tidelog.config import listeners
from tidelog.config.broker import BrokerConfig
from tidelog.controller import tree
from tidelog.controller.features import founding
from tidelog.errors import CorruptLog
from tidelog.model import Endpoint, Time, id_text, is_any_address
from tidelog.node.node import Node
from tidelog.node.quorum.sasl_salts import BYTES as SALT_BYTES
from tidelog.ports import Change, Create, MetadataStore, Operation, Read, StoreResult
from tidelog.ports import Node as StoreNode
from tidelog.security import sasl
from tidelog.shell import broker_access
from tidelog.shell.connections import acceptor
from tidelog.shell.connections.tls_listeners import TlsListeners
from tidelog.shell.connections.traffic import clock
from tidelog.shell.disk import OsDisk
from tidelog.shell.event_logger import EventLogger
from tidelog.shell.log_dir_lock import CannotStart, LogDirLock
from tidelog.shell.own_token import OwnTokenSource
from tidelog.shell.quorum.quorum_setup import QuorumNode, check_abandoned
from tidelog.shell.server import Server
from tidelog.shell.store.store_address import StoreUnavailable, address_of, open_store, session_timeout_ms
from tidelog.shell.store.store_thread import Session, StoreThread
from tidelog.shell.thread_pool import NO_TOKEN
from tidelog.shell.token_keys import TokenKeySources


class Parts(NamedTuple):
    """What connects a broker with sockets, disks, time and the metadata store. `tidelog.testing` replaces these parts
    to inject faults; nothing else does."""

    server: Callable[..., Server] = Server
    disk: Callable[[Sequence[str]], OsDisk] = OsDisk
    clock: Callable[[], Time] = clock
    open_store: Callable[..., Session] = open_store


class HostedBroker:
    """A broker from configuration to end. `opened` is called on the loop once it serves.

    From then on `endpoints` are the bound listeners, and `node` is the broker itself, to be used on the loop only.
    """

    def __init__(
        self,
        config: BrokerConfig,
        logger: EventLogger,
        opened: Callable[["HostedBroker"], None],
        parts: Parts = Parts(),  # noqa: B008 (immutable)
    ) -> None:
        self.parts = parts
        self.config = config
        self.logger = logger
        self.endpoints: Sequence[Endpoint] = ()
        self.loop = uvloop.new_event_loop()
        self.server: Server | None = None
        self._opened = opened
        self._term_ms = 0
        self._pinged_at: int | None = None  # when the loop was pinged; None once it has replied

    def __repr__(self) -> str:
        return f"Hosted({self.config.node_id})"

    def run(self) -> int:
        """Serve until stopped; return the exit code. CannotStart if it cannot start."""
        with ExitStack() as stack:
            stack.callback(self.loop.close)
            server = self.server = self._open(stack)
            # On the running loop: uvloop loses a signal that comes after its handler is set and before the loop runs.
            self.loop.call_soon(self._opened, self)
            self.loop.run_forever()
            return server.exit_code

    def stop(self) -> None:
        """Stop cleanly, from any thread; `run` returns some time later."""
        with suppress(RuntimeError):  # the loop is closed: it has ended
            self.loop.call_soon_threadsafe(self.stop_now)

    def stop_now(self) -> None:
        """Stop cleanly, on the loop."""
        assert self.server is not None
        self.server.notify(self.node.stop)

    def kill(self) -> None:
        """End `run` at once, from any thread, leaving behind what a killed process leaves."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)

    def _open(self, stack: ExitStack) -> Server:
        config = self.config
        quorum = QuorumNode(config) if config.has_quorum else None
        check_abandoned(config)
        metadata = str(address_of(config) if quorum is None else quorum)
        disk = self.parts.disk(config.folders if quorum is None else quorum.folders)
        log_dir_lock = LogDirLock(disk)
        log_dir_lock.lock()
        stack.callback(log_dir_lock.release)
        tls = TlsListeners(config, self.logger)
        bound = _bind(config, stack)
        token_keys, own_tokens = TokenKeySources(config), OwnTokenSource(config)
        advertised = _advertised(config, bound)
        own_token = own_tokens.load()
        thread = None if quorum is not None else self._open_store(stack)
        cluster_id = quorum.cluster_id if quorum is not None else _cluster_id(_store_of(thread), config)
        has_sasl = any(endpoint.security.startswith("SASL") for endpoint, _ in bound)
        if config.authorizer_class_name:
            broker_access.check(config, None if thread is None else thread.store, own_token)
        log_dir_lock.check_identity(cluster_id, config.node_id, os.urandom)
        homes = zip(config.folders, disk.folders, strict=False)  # the metadata log may have a folder of its own
        node = self.node = Node(
            config,
            disk,
            advertised,
            entropy=os.urandom,
            stopwatch=time.thread_time_ns,
            directories={
                folder: log_dir_lock.directories[home] for folder, home in homes if home in log_dir_lock.directories
            },
            sasl_secret=(
                _shared(thread.store, tree.SASL_SALTS, b64encode(os.urandom(SALT_BYTES)))
                if has_sasl and thread is not None
                else b""
            ),
            certificates=tls,
            jwks=token_keys.load(),
            own_token=own_token,
            has_features=True,
            quorum=quorum.setup(log_dir_lock.identity(quorum.folder)) if quorum is not None else None,
        )
        server = self.parts.server(
            self.loop,
            node,
            config,
            disk,
            logger=self.logger,
            tls=tls,
            submit=_no_store if thread is None else thread.submit,
            fetch_keys=token_keys.fetch,
            fetch_token=own_tokens.fetch,
            now=self.parts.clock,
        )
        stack.callback(server.close)
        for folder, reason in log_dir_lock.offline.items():
            server.notify(node.disk_failed, NO_TOKEN, folder, reason)
        try:
            server.notify(node.start)
        except CorruptLog as error:
            raise CannotStart(f"{error}.") from error
        among_nodes = {listeners.inter_broker_listener(config), *config.controller_listener_names}
        for endpoint, sock in bound:
            server.listen(endpoint.listener, sock, limited=endpoint.listener not in among_nodes)
        self._open_metrics(node, server, stack)
        if thread is not None:
            thread.start(_LoopForwarder(node, server, thread))
        shown = advertised or [endpoint for endpoint, _ in bound]  # a controller that is no broker advertises none
        addresses = ",".join(f"{e.listener}://{e.host}:{e.port}" for e in shown)
        fields = {"cluster": cluster_id, "listeners": addresses, "metadata": metadata}
        self.logger.write("info", "broker.listening", fields)
        self.endpoints = [endpoint for endpoint, _ in bound]
        return server

    def _open_metrics(self, node: Node, server: Server, stack: ExitStack) -> None:
        if self.config.metrics_listener is None:
            return
        from tidelog.shell.metrics_page import MetricsPage  # loaded only if the endpoint is configured

        host, _, port = self.config.metrics_listener.rpartition(":")
        page = MetricsPage(node, server)
        try:
            listening = self.loop.run_until_complete(page.listen(host.strip("[]"), int(port)))
        except (OSError, ValueError) as error:
            raise CannotStart(f"Cannot serve metrics on {self.config.metrics_listener}: {error}.") from error
        stack.callback(listening.close)

    def _open_store(self, stack: ExitStack) -> StoreThread:
        thread = StoreThread(self._store_opener())
        stack.callback(thread.stop)
        return thread

    def _store_opener(self) -> Callable[[Callable[[], None]], Session]:
        address = address_of(self.config)
        self._term_ms = session_timeout_ms(self.config, address)

        def open_session(notify: Callable[[], None]) -> Session:
            try:
                return self.parts.open_store(
                    address,
                    session_timeout_ms=self._term_ms,
                    connection_timeout_ms=self.config.zookeeper_connection_timeout_ms,
                    folder=Path(self.config.folders[0]).absolute(),
                    notify=notify,
                    is_alive=self._is_loop_responsive,
                )
            except StoreUnavailable as closed:
                raise CannotStart(str(closed)) from closed

        return open_session

    def _is_loop_responsive(self) -> bool:
        """Whether the event loop is responsive: it is pinged, and must reply within half a session timeout."""
        server = self.server
        if server is None or not self.loop.is_running():
            return True
        if self._pinged_at is None:
            self._pinged_at = clock().mono
            with suppress(RuntimeError):  # the loop is closed: it has ended
                server.call(self._on_pong)
            return True
        return clock().mono - self._pinged_at < self._term_ms // 2

    def _on_pong(self) -> None:
        self._pinged_at = None


class _LoopForwarder:
    """Forwards the store thread's reports to the node, on the loop."""

    def __init__(self, node: Node, server: Server, thread: StoreThread) -> None:
        self._node = node
        self._server = server
        self._thread = thread

    def session_started(self, session: int) -> None:
        self._server.call(self._thread.accept, session)
        self._server.notify_threadsafe(self._node.session_started, session)

    def store_result(self, token: int, result: StoreResult) -> None:
        self._server.notify_threadsafe(self._node.store_result, token, result)

    def store_event(self, path: str) -> None:
        self._server.notify_threadsafe(self._node.store_event, path)

    def store_silent(self) -> None:
        self._server.notify_threadsafe(self._node.store_silent)

    def session_lost(self) -> None:
        self._server.notify_threadsafe(self._node.session_lost)

    def store_unreachable(self, reason: str) -> None:
        self._server.call(self._server.log_error, "store.unreachable", reason)


def _bind(config: BrokerConfig, stack: ExitStack) -> list[tuple[Endpoint, socket.socket]]:
    """Every listener with its socket; port 0 is replaced by the bound port."""
    bound: list[tuple[Endpoint, socket.socket]] = []
    inter_broker = listeners.inter_broker_listener(config)
    for side in sasl.among_nodes(config).values():
        sasl.client(side, os.urandom)
    for endpoint in listeners.opened(config):
        if endpoint.security.startswith("SASL"):
            sasl.check(listeners.options_of(config, endpoint.listener))
        try:
            sock = acceptor.bind(endpoint.host, endpoint.port, config.socket_listen_backlog_size)
        except OSError as error:
            between = " between brokers" if endpoint.listener == inter_broker else ""
            raise CannotStart(
                f"Cannot listen{between} on {endpoint.host}:{endpoint.port}: {error.strerror}."
            ) from error
        stack.callback(sock.close)
        bound.append((endpoint._replace(port=sock.getsockname()[1]), sock))
    return bound


def _advertised(config: BrokerConfig, bound: Sequence[tuple[Endpoint, socket.socket]]) -> list[Endpoint]:
    """The endpoints at which brokers and clients reach each listener: as advertised, else as bound, else by the
    machine's name."""
    advertised = {endpoint.listener: endpoint for endpoint in listeners.advertised(config)}
    own = [endpoint for endpoint, _ in bound if endpoint.listener not in config.controller_listener_names]
    shown = [advertised.get(endpoint.listener, endpoint) for endpoint in own]
    return [endpoint._replace(host=_name(endpoint.host)) for endpoint in shown]


def _name(host: str) -> str:
    return socket.gethostname() if is_any_address(host) else host


def _store_of(thread: StoreThread | None) -> MetadataStore:
    assert thread is not None, "without a quorum there is a store"
    return thread.store


def _no_store(token: int, operations: Sequence[Operation]) -> None:
    raise AssertionError(f"operations {operations} ({token}) leave a node with a quorum")


def _cluster_id(store: MetadataStore, config: BrokerConfig) -> str:
    """The cluster's id; the first broker to ask founds the cluster."""
    new = tree.format_cluster_id(id_text(os.urandom(16)))
    return tree.parse_cluster_id(_shared(store, tree.CLUSTER_ID, new, founding(config)))


def _shared(store: MetadataStore, path: str, new: bytes, others: Sequence[Change] = ()) -> bytes:
    """The content of the node, for all brokers; the first broker to ask creates it, and `others` with it unless they
    exist."""
    while True:
        found = store.apply([Read(path), *(Read(each.path) for each in others)])
        if found.outcome != "ok":
            raise CannotStart("The metadata store does not answer.")
        node, *there = found.values
        if isinstance(node, StoreNode):
            return node.data
        store.apply([Create(path, new), *(each for each, known in zip(others, there, strict=True) if known is None)])
