"""`Cluster`: brokers of one cluster in the caller's process, on free ports, in a temporary folder."""

import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from tidelog.client.options import AdminOptions
from tidelog.client.properties import keywords
from tidelog.config.broker import BrokerConfig
from tidelog.errors import ApiError, ErrorCode
from tidelog.shell.secure_folder import PROTOCOL, SecureFolder
from tidelog.shell.store import scram_users
from tidelog.shell.store.store_address import address_of
from tidelog.shell.supervisor import cluster_options, is_complete, metadata_view
from tidelog.shell.transport import Admin
from tidelog.testing.broker import START_S, Broker, BrokerCrashed
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from tidelog.shell.client_security import Security

RETRY_S = 0.003
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
"""Options that differ from Kafka's defaults unless overridden, so that tests start quickly."""


class Cluster:
    """`with Cluster(brokers=3, min_insync_replicas=2) as cluster:` and clients connect to `cluster.bootstrap`.

    Overrides are options of every broker, as keywords with '_' for '.', or by Kafka's names in `options`. Without
    `folder` the data is deleted when the cluster is closed. With `secure`, clients need what is in `client_options`:
    TLS, and the password of the user `admin`, who may do everything.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        folder: str | Path | None = None,
        secure: bool = False,
        options: Mapping[str, str] | None = None,
        **overrides: object,
    ) -> None:
        given = {_dotted(name): _text(value) for name, value in overrides.items()} | dict(options or {})
        BrokerConfig.validate(given)
        unknown = BrokerConfig.unknown(given)
        if unknown:
            raise TypeError(f"unknown broker option {unknown[0]}")
        self._temporary = TemporaryDirectory(prefix="tidelog-") if folder is None else None
        self.folder = Path(self._temporary.name if self._temporary else str(folder)).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        everywhere = {**cluster_options(self.folder, brokers, given), **QUICK, **given}
        self.security = SecureFolder(self.folder) if secure else None
        if self.security is not None:
            self.security.check(given)
            everywhere = {**self.security.token_options(), **everywhere, **self.security.options()}
        protocol = PROTOCOL if secure else "PLAINTEXT"
        self.brokers = [
            Broker(number, self.folder / f"broker-{number}", everywhere, protocol) for number in range(brokers)
        ]
        self._client_security: Security | None = None

    def __repr__(self) -> str:
        return f"Cluster({self.brokers})"

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

    @property
    def bootstrap(self) -> str:
        """`host:port,…` of all brokers, running or not."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def client_options(self) -> dict[str, str]:
        """A client's options by librdkafka's names, once the cluster has started; others are in
        `security.client_file`, for Kafka's tools."""
        found = {"bootstrap.servers": self.bootstrap}
        return found if self.security is None else found | self.security.librdkafka_options()

    def start(self, broker: int | None = None) -> None:
        """Start one broker, or all that are down, and wait until every running one knows all of them."""
        if self.security is not None and self._client_security is None:
            self.security.prepare([])
            address = address_of(BrokerConfig(self.brokers[0].properties()))
            scram_users.add(address, [self.security.administrator()], only_missing=True)
            self._client_security = self.security.client_security()
        starting = [each for each in self.brokers if not each.is_running and broker in (None, each.id)]
        began = [each.start() for each in starting]
        for queue in began:
            error = queue.get(timeout=START_S)
            if error is not None:
                raise error
        self.wait_ready()

    def stop(self, broker: int) -> None:
        """Stop one broker cleanly."""
        self.brokers[broker].stop()

    def kill(self, broker: int) -> None:
        """End one broker as SIGKILL would: its sockets drop, and nothing is cleaned up."""
        self.brokers[broker].kill()

    def wait_ready(self, within_s: float = START_S) -> None:
        """Wait until the metadata of each running broker lists all running ones, and a controller among them."""
        running = [broker for broker in self.brokers if broker.is_running]
        wanted = frozenset(broker.id for broker in running)
        deadline = time.monotonic() + within_s
        for broker in running:
            while not is_complete(metadata_view("127.0.0.1", broker.port, self._client_security), wanted):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{broker} does not know all brokers after {within_s:g} s")
                time.sleep(RETRY_S)

    def create_topic(self, name: str, partitions: int = 1, *, replicas: int | None = None, **options: object) -> None:
        """Create a topic, and return when every running broker knows it and its leaders.

        By default it has a replica on every running broker, up to 3. Options are keywords with '_' for '.'. Raises
        ApiError if the cluster rejects the request.
        """
        running = [broker for broker in self.brokers if broker.is_running]
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=min(3, len(running)) if replicas is None else replicas,
            configs=[CreatableTopicConfig(name=_dotted(key), value=_text(value)) for key, value in options.items()],
        )
        options = {} if self.security is None else keywords(AdminOptions, self.security.client_options())
        with Admin(self.bootstrap, **options) as admin:
            result = admin.ask(CreateTopicsRequest(topics=[topic])).topics[0]
            if result.error_code:
                raise ApiError(ErrorCode(result.error_code), result.error_message)
            for broker in running:
                while not _has_leaders(admin, name, broker.id):
                    time.sleep(RETRY_S)

    def close(self) -> None:
        """Kill all brokers, and delete the data if its folder is temporary."""
        for broker in self.brokers:
            broker.kill()
        if self._temporary is not None:
            self._temporary.cleanup()


def _has_leaders(admin: Admin, topic: str, broker: int) -> bool:
    """Whether this broker knows the topic with all its leaders."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = admin.ask(request, broker).topics
    return bool(found.partitions) and all(partition.leader_id >= 0 for partition in found.partitions)


def _dotted(name: str) -> str:
    """An option's keyword as Kafka's name."""
    return name.replace("_", ".")


def _text(value: object) -> str:
    """A value as Kafka's files write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
