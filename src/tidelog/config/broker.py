"""The options of a broker: Kafka 4.3.1's by family, and Tidelog's own few."""

from collections.abc import Mapping, Sequence
from typing import Self

from tidelog.config.declare import string
from tidelog.config.families.elsewhere import JavaOptions, RaftOptions, RemoteOptions, ShareOptions, StreamsOptions
from tidelog.config.families.groups import GroupOptions
from tidelog.config.families.log import LogOptions
from tidelog.config.families.network import NetworkOptions
from tidelog.config.families.quotas import QuotaOptions
from tidelog.config.families.replication import ReplicationOptions
from tidelog.config.families.security import AccessOptions, OauthOptions, SaslOptions, SslOptions
from tidelog.config.families.transactions import TransactionOptions
from tidelog.config.families.zookeeper import ZookeeperOptions
from tidelog.config.option import Options
from tidelog.errors import InvalidOption

LISTENER_PREFIX = "listener.name."
_SAME = ("node.id", "broker.id")
_PER_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.class",
    "sasl.login.callback.handler.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


class OwnOptions(Options):
    """What Kafka has no option for."""

    metadata_store = string(
        None,
        "The cluster's memory, `sqlite:PATH` or `zookeeper://HOST:PORT/CHROOT`; without it metadata.sqlite in a folder "
        "beside the first log folder.",
    )
    metrics_listener = string(None, "Where metrics are served in Prometheus' format, as host:port; nowhere without it.")
    log_format = string("text", "How log lines are written: text or json.", choices=("text", "json"))


class BrokerConfig(
    OwnOptions,
    ZookeeperOptions,
    NetworkOptions,
    LogOptions,
    ReplicationOptions,
    GroupOptions,
    TransactionOptions,
    QuotaOptions,
    AccessOptions,
    SslOptions,
    SaslOptions,
    OauthOptions,
    RaftOptions,
    RemoteOptions,
    ShareOptions,
    StreamsOptions,
    JavaOptions,
):
    """A broker's options from three layers: its file, what the cluster sets for all brokers, what is set for this one.

    `config.replica_lag_time_max_ms` answers the value in force. An instance never changes: a dynamic change is a
    new one, made by `changed`.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        cluster: Mapping[str, str] | None = None,
        broker: Mapping[str, str] | None = None,
    ) -> None:
        self.properties = _with_both_ids(properties)
        self.cluster = cluster or {}
        self.broker = broker or {}
        self.explicit = {**self.properties, **self.cluster, **self.broker}

    def __repr__(self) -> str:
        return f"BrokerConfig({self.node_id}, {len(self.explicit)} given)"

    def changed(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> Self:
        """The same file under other dynamic options."""
        return type(self)(self.properties, cluster=cluster, broker=broker)

    @property
    def folders(self) -> list[str]:
        """The folders for logs, from log.dirs or else log.dir."""
        return self.log_dirs or self.log_dir

    @classmethod
    def validate(cls, given: Mapping[str, str]) -> None:
        """InvalidOption at the first value out of bounds or pair that contradicts itself; unknown names pass."""
        super().validate({base_name(name): text for name, text in given.items()})
        if all(name in given for name in _SAME) and given["node.id"].strip() != given["broker.id"].strip():
            raise InvalidOption(
                f"node.id and broker.id must be the same, not {given['node.id']} and {given['broker.id']}"
            )
        config = cls(given)
        for smaller, larger in _ORDERED:
            low, high = (cls.OPTIONS[name].__get__(config, cls) for name in (smaller, larger))
            if low > high:
                raise InvalidOption(f"{smaller} must be at most {larger} ({high}), not {low}")

    @classmethod
    def unknown(cls, given: Mapping[str, str]) -> list[str]:
        """The given names that no option has, in order; options of a listener are known by their own name."""
        return [name for name in given if base_name(name) not in cls.OPTIONS]

    @classmethod
    def ignored(cls, given: Mapping[str, str]) -> list[str]:
        """The given names that are Kafka's but have no effect here, in order."""
        return [name for name in given if name in cls.OPTIONS and cls.OPTIONS[name].ignored]


_ORDERED: Sequence[tuple[str, str]] = (
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
)
"""Pairs of which the first may not exceed the second."""


def base_name(name: str) -> str:
    """The option that `listener.name.NAME.` or `listener.name.NAME.MECHANISM.` before it narrows to one listener."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    base = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return next((each for each in _PER_MECHANISM if base.endswith(f".{each}")), base)


def _with_both_ids(properties: Mapping[str, str]) -> dict[str, str]:
    """node.id and broker.id say the same: where one is given the other follows."""
    given = dict(properties)
    for name, other in (_SAME, _SAME[::-1]):
        if name in given:
            given.setdefault(other, given[name])
    return given
