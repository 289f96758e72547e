"""A cluster of broker processes on this machine, started together, watched, and stopped together.

Brokers end with their supervisor, even if it is killed. `tidelog up` runs one (`cli/brokers/running_cluster.py`).
"""

import errno
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tidelog.client.properties import explicit_keywords
from tidelog.config import listeners
from tidelog.config.broker import BrokerConfig
from tidelog.errors import ApiError, ProtocolViolation
from tidelog.model import INTER_BROKER_LISTENER, is_any_address
from tidelog.quorum.formatting import METADATA_FOLDER, InitialVoter
from tidelog.security.added_users import User
from tidelog.shell.blocking_frames import exchange
from tidelog.shell.child import Child
from tidelog.shell.connections import acceptor
from tidelog.shell.disk import LOCK_FILE, is_locked
from tidelog.shell.quorum import quorum_folders
from tidelog.shell.secure_folder import ONLY_OWNER, PROTOCOL, SecureFolder, only_owner
from tidelog.shell.store import scram_users, zookeeper_session_file
from tidelog.shell.store.store_address import StoreUnavailable, ZookeeperAddress, address_of
from tidelog.wire.messages.topics.metadata import MetadataRequest

if TYPE_CHECKING:  # a cluster without security does not load TLS
    from tidelog.shell.client_security import Security

READY_S = 60.0
RETRY_S = 0.01
RESTART_INTERVAL_S = 1.0
"""The minimum time between two restarts of a broker."""

METADATA, METADATA_VERSION = 3, 8
CLIENT_ID = "tidelog-up"
NO_CONTROLLER = -1


class NotReady(Exception):
    """The cluster did not come up; the message says why."""


class BrokerRefused(NotReady):
    """A broker exited before it listened, and printed why to stderr; the message repeats it if stderr is a file."""


class Supervisor:
    """`brokers` processes with their data below `folder`, on `port` and the following ones (0: free ones).

    `overrides` are options of every broker. `report` is called with a line whenever a broker ends unexpectedly. With
    `secure` the cluster uses a `SecureFolder`. `users` are added to the metadata store at each start. With `quorum` the
    brokers keep the metadata themselves; then `users` can be added at the first start only.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        brokers: int = 3,
        port: int = 9092,
        host: str = "127.0.0.1",
        overrides: Mapping[str, str] | None = None,
        restart: bool = False,
        secure: bool = False,
        users: Sequence[User] = (),
        quorum: bool = False,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self.folder = Path(folder).absolute()
        self.restart = restart
        self.security = SecureFolder(self.folder) if secure else None
        self._users = users
        self._report = report or print_line
        self._quorum = quorum
        options = {**cluster_options(self.folder, brokers, overrides, quorum=quorum), **(overrides or {})}
        self.children = [
            Child(number, self.folder / f"broker-{number}", host, port + number if port else 0, options)
            for number in range(brokers)
        ]
        if self.security is not None:
            self.security.check(overrides or {})
            for child in self.children:
                secure_child(child, self.security, quorum=quorum)
        self._started_at: dict[int, float] = {}
        self._client_security: Security | None = None

    def __repr__(self) -> str:
        return f"Supervisor({self.folder}, {self.children})"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{child.host}:{child.port}" for child in self.children)

    @property
    def client(self) -> dict[str, Any]:
        """What Tidelog's clients need besides the addresses, once the cluster has started."""
        return {} if self.security is None else explicit_keywords(self.security.client_options())

    def start(self, *, within_s: float = READY_S) -> None:
        """Start all brokers and wait until each one's metadata lists all of them and a controller. NotReady, without
        any change, if a cluster already runs in the folder or a port is taken."""
        self._check_free()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotReady(f"Cannot create the data folder {self.folder}: {error.strerror}.") from error
        self._prepare()
        try:
            for child in self.children:
                self.start_broker(child.number)
            self.wait_ready(within_s=within_s)
        except BaseException:
            self.stop()
            raise

    def _prepare(self) -> None:
        """Create what the folder of a secured cluster lacks, and add users to the metadata store, or to the folders of
        a new quorum."""
        if self.security is None and SecureFolder(self.folder).exists:
            raise NotReady(f"The cluster in {self.folder} is secured: start it with --secure.")
        if not self._quorum and quorum_folders.is_formatted(self.folder):
            raise NotReady(
                f"The cluster in {self.folder} has a metadata quorum: start it with --metadata quorum. If its "
                f"metadata was moved elsewhere, remove broker-*/{METADATA_FOLDER}."
            )
        own: list[User] = []
        if self.security is not None:
            self.security.prepare([host for child in self.children for host in _hosts(child)])
            own = [self.security.administrator()]
        if self._quorum:
            self._prepare_quorum([*own, *self._users])
        else:
            self._add_users(self._users)
            self._add_users(own, only_missing=True)
        if self.security is not None:
            self._client_security = self.security.client_security()

    def _prepare_quorum(self, users: Sequence[User]) -> None:
        if self._users and quorum_folders.is_formatted(self.folder):
            raise NotReady(
                f"--add-scram: the cluster in {self.folder} exists, and only its brokers can add users: start it "
                "without, and use `tidelog configs --alter --entity-type users`."
            )
        folders = {each.number: Path(each.properties()["log.dirs"]) for each in self.children}
        hosts = {each.number: each.host for each in self.children}
        try:
            with only_owner() if users else nullcontext():
                voters = quorum_folders.prepare(folders, hosts, users)
        except quorum_folders.NotFormatted as error:
            raise NotReady(str(error)) from None
        for child in self.children:
            join_quorum(child, voters)

    def _add_users(self, users: Sequence[User], *, only_missing: bool = False) -> None:
        if not users:
            return
        try:
            with only_owner():
                address = address_of(BrokerConfig(self.children[0].properties()))
                scram_users.add(address, users, only_missing=only_missing)
        except StoreUnavailable as error:
            raise NotReady(str(error)) from None

    def _check_free(self) -> None:
        """Fail before anything is started: brokers would detect this themselves, but the others would be running by
        then, with other options."""
        for lock in sorted(self.folder.glob(f"broker-*/{LOCK_FILE}")):
            if is_locked(str(lock.parent)):
                raise NotReady(
                    f"A cluster is already running in {self.folder}: {lock.parent} is used by another process."
                )
        for child in self.children:
            try:
                if child.port:
                    acceptor.try_bind(child.host, child.port)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:  # another address may belong to the broker's network namespace
                    raise NotReady(f"Cannot listen on {child.host}:{child.port}: {error.strerror}.") from error

    def start_broker(self, number: int) -> None:
        self._started_at[number] = time.monotonic()
        self.children[number].start()

    def wait_ready(self, *, within_s: float = READY_S) -> None:
        """Wait until every running broker's metadata lists all running brokers; NotReady if one ends or the
        time is up."""
        deadline = time.monotonic() + within_s
        running = [child for child in self.children if child.process is not None]
        for child in running:
            try:
                listening = child.wait_listening(deadline - time.monotonic())
            except TimeoutError:
                raise NotReady(f"broker {child.number} is not listening after {within_s:g} s") from None
            if not listening:
                ended = child.reap()
                if ended == "with exit code 1":
                    raise BrokerRefused(child.last_line() or f"broker {child.number} ended {ended}")
                raise NotReady(_ending(child, ended))
        wanted = frozenset(child.number for child in running)
        for child in running:
            while not is_complete(metadata_view(child.host, child.port, self._client_security), wanted):
                if child.process is None or child.process.poll() is not None:
                    raise NotReady(_ending(child, child.reap()))
                if time.monotonic() > deadline:
                    raise NotReady(f"broker {child.number} does not know all brokers after {within_s:g} s")
                time.sleep(RETRY_S)

    def kill(self, number: int) -> None:
        """SIGKILL one broker; it stays down until `start_broker`."""
        child = self.children[number]
        child.signal(signal.SIGKILL)
        child.reap()

    def stop_broker(self, number: int) -> None:
        """Stop one broker cleanly; it stays down until `start_broker`."""
        child = self.children[number]
        child.signal(signal.SIGTERM)
        child.stop()

    def watch(self, wake_fd: int, others: Mapping[int, Callable[[], None]] | None = None) -> None:
        """Report every broker that ends, and restart it if so configured, until `wake_fd` is readable. `others`: more
        descriptors, and what to call when one is readable."""
        calls = others or {}
        while True:
            poller = select.poll()
            poller.register(wake_fd, select.POLLIN)
            by_fd = {child.pidfd: child for child in self.children if child.process is not None}
            for fd in (*by_fd, *calls):
                poller.register(fd, select.POLLIN)
            ready = [fd for fd, _ in poller.poll()]
            if wake_fd in ready:
                return
            for fd in ready:
                if fd in by_fd:
                    self._handle_exit(by_fd[fd], wake_fd)
            for fd in ready:
                if fd in calls:  # may stop brokers, and so comes last
                    calls[fd]()

    def _handle_exit(self, child: Child, wake_fd: int) -> None:
        pid = child.pid
        self._report(f"broker {child.number} (pid {pid}) ended {child.reap()}")
        address = None if self._quorum else address_of(BrokerConfig(child.properties()))
        if isinstance(address, ZookeeperAddress):
            zookeeper_session_file.end_session(child.folder, address.security)
        if self.restart:
            pause_s = self._started_at[child.number] + RESTART_INTERVAL_S - time.monotonic()
            if pause_s > 0 and select.select([wake_fd], [], [], pause_s)[0]:
                return
            self.start_broker(child.number)
            self._report(f"broker {child.number} restarted (pid {child.pid})")

    def stop(self) -> None:
        """Stop all brokers cleanly, at the same time."""
        for child in self.children:
            child.signal(signal.SIGTERM)
        for child in self.children:
            child.stop()


def cluster_options(
    folder: Path, brokers: int, given: Mapping[str, str] | None = None, *, quorum: bool = False
) -> dict[str, str]:
    """The options shared by the brokers of one machine: the store, unless `given` names another one or there is a
    quorum, and internal topics with up to three replicas."""
    copies = str(min(3, brokers))
    is_elsewhere = quorum or "zookeeper.connect" in (given or {})
    store = {} if is_elsewhere else {"metadata.store": f"sqlite:{folder / 'metadata.sqlite'}"}
    return {
        **store,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": str(min(2, brokers)),
    }


def _ending(child: Child, ended: str) -> str:
    more = "" if child.log is None else f"; see {child.log}"
    return f"broker {child.number} ended {ended}{more}"


def join_quorum(child: Child, voters: Sequence[InitialVoter]) -> None:
    """Make a broker a member of the metadata quorum."""
    child.options = quorum_folders.joined(child.options, child.number, voters)
    between = child.more_listeners or (f"{INTER_BROKER_LISTENER}://{child.host}:0",)
    controllers = quorum_folders.listeners_of(child.number, voters)
    child.more_listeners = [*(each for each in between if each not in controllers), *controllers]


def secure_child(child: Child, folder: SecureFolder, *, quorum: bool = False) -> None:
    """Make a broker one of a secured cluster, which keeps its metadata in a `quorum` of its brokers."""
    of_all = folder.options(quorum_folders.LISTENER if quorum else "")
    child.options = {**folder.token_options(), **child.options, **of_all}
    child.protocol = PROTOCOL
    child.umask = ONLY_OWNER


def _hosts(child: Child) -> list[str]:
    """The hosts by which clients and brokers reach the broker."""
    found = [child.host, *(each.host for each in listeners.advertised(BrokerConfig(child.properties())))]
    return [host for host in found if not is_any_address(host)]


@dataclass(frozen=True, slots=True)
class MetadataView:
    """One broker's metadata: the brokers it lists, and the controller."""

    brokers: frozenset[int] = frozenset()
    controller: int = NO_CONTROLLER


def metadata_view(host: str, port: int, security: "Security | None" = None, *, timeout_s: float = 1.0) -> MetadataView:
    """The broker's metadata; an empty view if it does not answer yet, or does not know the user yet."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connected:
            sock = connected if security is None else security.log_in(connected, host)
            request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
            response = exchange(sock, METADATA, METADATA_VERSION, request, CLIENT_ID)
    except (OSError, ProtocolViolation, ApiError):
        return MetadataView()
    return MetadataView(frozenset(broker.node_id for broker in response.brokers), response.controller_id)


def is_complete(view: MetadataView, brokers: frozenset[int]) -> bool:
    return view.brokers >= brokers and view.controller in brokers


def print_line(line: str) -> None:
    """On stderr, in one write: brokers write their log lines to the same pipe, and a line end of its own would come
    after theirs."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
