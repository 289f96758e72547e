"""The brokers of a cluster in the caller's process: how they start, end and stand still."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from tidelog.client.options import AdminOptions
from tidelog.client.properties import keywords
from tidelog.config.broker import BrokerConfig
from tidelog.shell.quorum import quorum_folders
from tidelog.shell.secure_folder import PROTOCOL, SecureFolder
from tidelog.shell.store import scram_users
from tidelog.shell.store.store_address import address_of
from tidelog.shell.supervisor import CLIENT_ID as STARTING_CLIENT_ID
from tidelog.shell.supervisor import cluster_options, is_complete, metadata_view
from tidelog.shell.transport import Admin
from tidelog.testing.broker import START_S, Broker, BrokerCrashed
from tidelog.testing.edge import Wire
from tidelog.testing.requests import Fault

if TYPE_CHECKING:
    from tidelog.shell.client_security import Security

RETRY_S = 0.003
SQLITE, QUORUM = "sqlite", "quorum"
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
"""Options that differ from Kafka's defaults unless overridden, so that tests start quickly."""
CLIENT_ID = "tidelog-testing"
"""The client of this package itself: its requests are neither disturbed nor listed."""

clusters: "WeakSet[Lifecycle]" = WeakSet()
"""Every cluster of this process that still exists, for the reports of failed tests."""


class ClusterClosed(RuntimeError):
    """The cluster was closed before this call."""


class Lifecycle:
    """What `Cluster` can do with its brokers."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        folder: str | Path | None = None,
        secure: bool = False,
        metadata: str = SQLITE,
        options: Mapping[str, str] | None = None,
        **overrides: object,
    ) -> None:
        if isinstance(brokers, bool) or not isinstance(brokers, int) or brokers < 1:
            raise ValueError(f"brokers: {brokers!r} is not a number of brokers; expected 1 or more")
        if metadata not in (SQLITE, QUORUM):
            raise ValueError(f"metadata: {metadata!r} is not a metadata store; expected {SQLITE!r} or {QUORUM!r}")
        given = {dotted(name): as_text(value) for name, value in overrides.items()} | dict(options or {})
        BrokerConfig.validate(given)
        unknown = BrokerConfig.unknown(given)
        if unknown:
            raise TypeError(f"unknown broker option {unknown[0]}")
        self._closed = False
        self._temporary = TemporaryDirectory(prefix="tidelog-") if folder is None else None
        self.folder = Path(self._temporary.name if self._temporary else str(folder)).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        has_quorum = metadata == QUORUM
        everywhere = {**cluster_options(self.folder, brokers, given, quorum=has_quorum), **QUICK, **given}
        self.security = SecureFolder(self.folder) if secure else None
        if self.security is not None:
            self.security.check(given)
            of_all = self.security.options(quorum_folders.LISTENER if has_quorum else "")
            everywhere = {**self.security.token_options(), **everywhere, **of_all}
        protocol = PROTOCOL if secure else "PLAINTEXT"
        self._faults: list[Fault] = []
        self._layers: dict[tuple[str, int], dict[Fault, Any]] = {}
        """What overlapping faults set of a broker, oldest first."""
        self.brokers = [
            Broker(
                number,
                self.folder / f"broker-{number}",
                everywhere,
                protocol=protocol,
                wire=Wire(number, self._broker_at, spared=(CLIENT_ID, STARTING_CLIENT_ID)),
            )
            for number in range(brokers)
        ]
        if has_quorum:
            folders = {broker.id: broker.folder for broker in self.brokers}
            users = []
            if self.security is not None:
                self.security.prepare([])
                users = [self.security.administrator()]
            voters = quorum_folders.prepare(folders, dict.fromkeys(folders, "127.0.0.1"), users)
            for broker in self.brokers:
                broker.join_quorum(voters)
        self._client_security: Security | None = None
        clusters.add(self)

    def __repr__(self) -> str:
        return f"Cluster({self.brokers}{', closed' if self._closed else ''})"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, exception: object, *_: object) -> None:
        self.close()
        crashed = [broker for broker in self.brokers if broker.crashed]
        if crashed and exception is None:
            raise BrokerCrashed(f"{crashed[0]} crashed")

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *exception: object) -> None:
        await asyncio.to_thread(self.__exit__, *exception)

    @property
    def bootstrap(self) -> str:
        """`host:port,…` of all brokers, running or not."""
        self._check_open()
        return ",".join(broker.address for broker in self.brokers)

    @property
    def client_options(self) -> dict[str, str]:
        """A client's options by librdkafka's names, once the cluster has started; others are in
        `security.client_file`, for Kafka's tools."""
        found = {"bootstrap.servers": self.bootstrap}
        return found if self.security is None else found | self.security.librdkafka_options()

    def start(self, broker: int | None = None) -> None:
        """Start one broker, or all that are down, and wait until every running one knows all of them."""
        self._check_open()
        wanted = self.brokers if broker is None else [self.broker(broker)]
        if self.security is not None and self._client_security is None:
            if not BrokerConfig(self.brokers[0].properties()).has_quorum:
                self.security.prepare([])
                address = address_of(BrokerConfig(self.brokers[0].properties()))
                scram_users.add(address, [self.security.administrator()], only_missing=True)
            self._client_security = self.security.client_security()
        for each in wanted:
            if each.is_cut_off and not each.is_running:
                raise RuntimeError(f"broker {each.id} cannot start while it is partitioned; call heal() first")
        began = [each.start() for each in wanted if not each.is_running]
        for queue in began:
            error = queue.get(timeout=START_S)
            if error is not None:
                raise error
        self.wait_ready()

    def stop(self, broker: int) -> None:
        """Stop one broker cleanly: it hands over its partitions and closes its logs."""
        self.broker(broker).stop()

    def kill(self, broker: int) -> None:
        """End one broker as SIGKILL would: its sockets drop, and nothing is cleaned up."""
        self.broker(broker).kill()

    def restart(self, broker: int) -> None:
        """Stop one broker cleanly and start it again, on the same port and with the same data."""
        self.stop(broker)
        self.start(broker)

    def pause(self, broker: int) -> None:
        """Hold one broker as SIGSTOP would, until `resume`: its connections stay open, and nothing is answered. The
        others end its session after broker.session.timeout.ms (9 s)."""
        self.broker(broker).pause()

    def resume(self, broker: int | None = None) -> None:
        """Let one paused broker, or all, go on."""
        for each in self.brokers if broker is None else [self.broker(broker)]:
            each.resume()

    def broker(self, number: int) -> Broker:
        """One of the brokers; ValueError if there is none of this number, ClusterClosed if the cluster is closed.

        >>> cluster.broker(9)
        ValueError: broker 9 does not exist; expected 0 to 2
        """
        self._check_open()
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(self.brokers):
            last = len(self.brokers) - 1
            raise ValueError(f"broker {number!r} does not exist; expected {f'0 to {last}' if last else '0'}")
        return self.brokers[number]

    def _check_open(self) -> None:
        if self._closed:
            raise ClusterClosed("the cluster is closed")

    @property
    def _answering(self) -> list[Broker]:
        """The brokers that can be asked."""
        return [broker for broker in self.brokers if broker.is_running and not broker.is_paused]

    @property
    def _reachable(self) -> list[Broker]:
        """Those among them that know the cluster as it is."""
        return [broker for broker in self._answering if not broker.is_cut_off]

    def _broker_at(self, port: int) -> int:
        """The broker whose listener for brokers or controllers has this port, -1 if there is none."""
        return next((broker.id for broker in self.brokers if port in broker.ports_of_nodes), -1)

    def wait_ready(self, within_s: float = START_S) -> None:
        """Wait until the metadata of each running broker lists all running ones, and a controller among them."""
        running = self._reachable
        wanted = frozenset(broker.id for broker in running)
        deadline = time.monotonic() + within_s
        for broker in running:
            while not is_complete(metadata_view("127.0.0.1", broker.port, self._client_security), wanted):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{broker} does not know all brokers after {within_s:g} s")
                time.sleep(RETRY_S)

    @property
    def _own_client(self) -> dict[str, Any]:
        """Options of this package's own clients."""
        security = {} if self.security is None else keywords(AdminOptions, self.security.client_options())
        return {"client_id": CLIENT_ID, **security}

    def admin(self) -> Admin:
        """A client that sends any request: `with cluster.admin() as admin: admin.ask(DescribeClusterRequest())`."""
        self._check_open()
        reachable = ",".join(broker.address for broker in self._reachable)
        return Admin(reachable or self.bootstrap, **self._own_client)

    def close(self) -> None:
        """Kill all brokers, and delete the data if its folder is temporary."""
        self._closed = True
        for broker in self.brokers:
            broker.kill()
        if self._temporary is not None:
            self._temporary.cleanup()


def dotted(name: str) -> str:
    """An option's keyword as Kafka's name."""
    return name.replace("_", ".")


def as_text(value: object) -> str:
    """A value as Kafka's files write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
