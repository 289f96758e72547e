"""One broker process: `run_broker`, and `python -m tidelog.shell.broker FILE [key=value…]`.

What is opened stands in one ExitStack, in the order in which later things need earlier ones. Whatever keeps the broker
from starting is one sentence on stderr and exit code 1.
"""

import gc
import os
import resource
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import uvloop

from tidelog.config import listeners, properties
from tidelog.config.broker import BrokerConfig
from tidelog.controller import tree
from tidelog.errors import InvalidOption
from tidelog.model import Endpoint, id_text
from tidelog.node.node import Node
from tidelog.ports import Create, MetadataStore, Read, StoreResult
from tidelog.ports import Node as StoreNode
from tidelog.shell import doors, premises
from tidelog.shell.disk import OsDisk
from tidelog.shell.lines import Lines
from tidelog.shell.premises import Refusal
from tidelog.shell.server import Server, clock
from tidelog.shell.sqlite_store import SqliteStore
from tidelog.shell.sqlite_tree import StoreDamaged
from tidelog.shell.store_thread import Session, StoreThread

EXIT_REFUSED = 1
SUPERVISED = "--supervised"
"""The flag under which stdin is a pipe whose end means that the supervisor is gone."""


class BrokerProcess:
    """A broker from its configuration to its end. `ready` is called once it serves, with the bound listeners."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        ready: Callable[[Sequence[Endpoint]], None] = lambda _: None,
        watch_stdin: bool = False,
    ) -> None:
        self.config = config
        self.lines = Lines(f"broker-{config.node_id}")
        self._ready = ready
        self._watch_stdin = watch_stdin
        self._signals = 0
        self._server: Server | None = None

    def __repr__(self) -> str:
        return f"BrokerProcess({self.config.node_id})"

    def run(self) -> int:
        """Serve until stopped; the exit code. Refusal where it cannot start."""
        _raise_open_files()
        with ExitStack() as stack:
            self._open(stack)
            self._loop.run_forever()
        assert self._server is not None
        return self._server.exit_code

    def _open(self, stack: ExitStack) -> None:
        config = self.config
        disk = OsDisk([str(Path(folder).absolute()) for folder in config.folders])
        for release in premises.lock(disk):
            stack.callback(release)
        bound = _bind(config, stack)
        endpoints = _reached(config, bound)
        thread = StoreThread(self._store_opener())
        stack.callback(thread.stop)
        cluster_id = _cluster_id(thread.store)
        premises.check_identity(disk, cluster_id, config.node_id, os.urandom)
        node = Node(config, disk, endpoints, entropy=os.urandom)
        self._loop = uvloop.new_event_loop()
        stack.callback(self._loop.close)
        server = self._server = Server(self._loop, node, config, disk, lines=self.lines, submit=thread.submit)
        stack.callback(server.close)
        server.tell(node.start)
        brokers_own = listeners.inter_broker_listener(config)
        for endpoint, sock in bound:
            server.listen(endpoint.listener, sock, limited=endpoint.listener != brokers_own)
        thread.start(_ToLoop(node, server, thread))
        self._listen_to_signals(server, node)
        fields = {"cluster": cluster_id, "listeners": ",".join(f"{e.listener}://{e.host}:{e.port}" for e in endpoints)}
        self.lines.write("info", "broker.listening", fields)
        self._ready([endpoint for endpoint, _ in bound])
        gc.collect()
        gc.freeze()

    def _store_opener(self) -> Callable[[Callable[[], None]], Session]:
        path = store_path(self.config)
        timeout_ms = self.config.broker_session_timeout_ms

        def open_session(notify: Callable[[], None]) -> Session:
            try:
                return SqliteStore(path, session_timeout_ms=timeout_ms, notify=notify, ticking=self._is_ticking)
            except (StoreDamaged, sqlite3.Error, OSError) as error:
                raise Refusal(f"The metadata store {path} cannot be opened: {error}.") from error

        return open_session

    def _is_ticking(self) -> bool:
        """Ask the loop for a sign of life, and judge by the last one: within half a term, or not started yet."""
        server = self._server
        if server is None or not self._loop.is_running():
            return True
        server.call(server.tick)
        return clock().mono - server.ticked_at < self.config.broker_session_timeout_ms // 2

    def _listen_to_signals(self, server: Server, node: Node) -> None:
        """The first wish to stop is carried out cleanly, the second at once."""

        def stop(why: str) -> None:
            self._signals += 1
            self.lines.write("info", "broker.stopping", {"reason": why})
            if self._signals == 1:
                server.tell(node.stop)
            else:
                server.exit_code = EXIT_REFUSED
                self._loop.stop()

        def read_stdin() -> None:
            if not os.read(0, 4096):
                self._loop.remove_reader(0)
                stop("the supervisor is gone")

        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, stop, signal.Signals(number).name)
        if self._watch_stdin:
            self._loop.add_reader(0, read_stdin)


class _ToLoop:
    """Hands what happens on the store's thread to the node, on the loop."""

    def __init__(self, node: Node, server: Server, thread: StoreThread) -> None:
        self._node = node
        self._server = server
        self._thread = thread

    def session_started(self, session: int) -> None:
        self._server.call(self._thread.accept, session)
        self._server.tell_later(self._node.session_started, session)

    def store_result(self, token: int, result: StoreResult) -> None:
        self._server.tell_later(self._node.store_result, token, result)

    def store_event(self, path: str) -> None:
        self._server.tell_later(self._node.store_event, path)

    def session_lost(self) -> None:
        self._server.tell_later(self._node.session_lost)


def run_broker(
    config: BrokerConfig,
    *,
    ready: Callable[[Sequence[Endpoint]], None] = lambda _: None,
    watch_stdin: bool = False,
) -> int:
    """Run a broker in this process until it is stopped; the exit code. A refusal is one sentence on stderr."""
    try:
        return BrokerProcess(config, ready=ready, watch_stdin=watch_stdin).run()
    except (Refusal, InvalidOption) as refusal:
        sys.stderr.write(f"{refusal}\n")
        return EXIT_REFUSED


def store_path(config: BrokerConfig) -> Path:
    """Where metadata.store says, or beside the first log folder."""
    text = config.metadata_store
    if text is None:
        return (
            Path(config.folders[0]).absolute().with_name(Path(config.folders[0]).name + "-metadata") / "metadata.sqlite"
        )
    kind, _, place = text.partition(":")
    if kind != "sqlite" or not place:
        raise Refusal(f"metadata.store must be sqlite:PATH, not {text}.")
    return Path(place).absolute()


def load_config(file: str | Path, overrides: Sequence[str] = ()) -> BrokerConfig:
    """A server.properties file with `key=value` overrides; InvalidOption names what is wrong."""
    given = properties.parse(Path(file).read_text(encoding="utf-8"))
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise InvalidOption(f"an override must be key=value, not {override!r}")
        given[key.strip()] = value.strip()
    BrokerConfig.validate(given)
    return BrokerConfig(given)


def _bind(config: BrokerConfig, stack: ExitStack) -> list[tuple[Endpoint, socket.socket]]:
    """Every listener with its socket, the port resolved."""
    bound: list[tuple[Endpoint, socket.socket]] = []
    for wished in listeners.bound(config):
        if wished.security != "PLAINTEXT":
            raise Refusal(f"Listener {wished.listener} asks for {wished.security}; only PLAINTEXT is served.")
        try:
            sock = doors.bind(wished.host, wished.port, config.socket_listen_backlog_size)
        except OSError as error:
            raise Refusal(f"Cannot listen on {wished.host}:{wished.port}: {error.strerror}.") from error
        stack.callback(sock.close)
        bound.append((wished._replace(port=sock.getsockname()[1]), sock))
    return bound


def _reached(config: BrokerConfig, bound: Sequence[tuple[Endpoint, socket.socket]]) -> list[Endpoint]:
    """Where others reach each listener: as advertised, else as bound, else by the machine's name."""
    advertised = {endpoint.listener: endpoint for endpoint in listeners.advertised(config)}
    return [advertised.get(endpoint.listener) or endpoint._replace(host=_name(endpoint.host)) for endpoint, _ in bound]


def _name(host: str) -> str:
    return socket.gethostname() if host in ("", "0.0.0.0", "::") else host  # noqa: S104 (compared, not bound)


def _cluster_id(store: MetadataStore) -> str:
    """The cluster's id; the first broker that ever asks draws it."""
    while True:
        found = store.apply([Read(tree.CLUSTER_ID)])
        if found.outcome != "ok":
            raise Refusal("The metadata store does not answer.")
        (node,) = found.values
        if isinstance(node, StoreNode):
            return tree.parse_cluster_id(node.data)
        store.apply([Create(tree.CLUSTER_ID, tree.format_cluster_id(id_text(os.urandom(16))))])


def _raise_open_files() -> None:
    """Thousands of partitions are thousands of files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _announce(endpoints: Sequence[Endpoint]) -> None:
    """One line on stdout for whoever started the process."""
    print("listening", ",".join(f"{e.listener}://{e.host}:{e.port}" for e in endpoints), flush=True)  # noqa: T201


def main(arguments: Sequence[str]) -> int:
    supervised = SUPERVISED in arguments
    file, *overrides = [argument for argument in arguments if argument != SUPERVISED]
    try:
        config = load_config(file, overrides)
    except (InvalidOption, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_REFUSED
    return run_broker(config, ready=_announce, watch_stdin=supervised)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
