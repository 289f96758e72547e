"""The options of a broker: the union of all families.

`InheritingOptions` is the base of the options that fall back to a broker's: a topic's and a group's.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

from tidelog.config.families.coordinator_options import GroupOptions, TransactionOptions
from tidelog.config.families.log_options import LogOptions
from tidelog.config.families.network_options import NetworkOptions, QuotaOptions
from tidelog.config.families.quorum_options import QuorumOptions
from tidelog.config.families.replication_options import ReplicationOptions
from tidelog.config.families.security_options import (
    AccessOptions,
    AuthorizerOptions,
    LoginOptions,
    OauthAssertionOptions,
    OauthOptions,
    SaslOptions,
    SaslOptionsOfJava,
    SslOptions,
    TokenOptions,
)
from tidelog.config.families.tidelog_options import OwnOptions, ZookeeperOptions
from tidelog.config.families.unsupported_options import (
    JavaOptions,
    RaftOptions,
    RemoteOptions,
    ShareOptions,
    StreamsOptions,
)
from tidelog.config.option import Option, Options
from tidelog.errors import InvalidOption

T = TypeVar("T")

LISTENER_PREFIX = "listener.name."
_SAME_ID = ("node.id", "broker.id")
_PER_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
    *LoginOptions.OPTIONS,
    *OauthOptions.OPTIONS,
    *OauthAssertionOptions.OPTIONS,
)


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
    AuthorizerOptions,
    SslOptions,
    TokenOptions,
    SaslOptions,
    LoginOptions,
    SaslOptionsOfJava,
    OauthOptions,
    OauthAssertionOptions,
    QuorumOptions,
    RaftOptions,
    RemoteOptions,
    ShareOptions,
    StreamsOptions,
    JavaOptions,
):
    """A broker's options from three layers: its file, the cluster-wide dynamic options, and its own dynamic options.

    `config.replica_lag_time_max_ms` is the value in force. An instance never changes: `changed` makes a new one for a
    dynamic change.
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
        """The same file with other dynamic options."""
        return type(self)(self.properties, cluster=cluster, broker=broker)

    def of_listener(self, name: str) -> Self:
        """The options as they hold for one listener: `listener.name.NAME.x` stands in for `x`."""
        prefix = f"{LISTENER_PREFIX}{name.lower()}."
        own = {key.removeprefix(prefix): text for key, text in self.explicit.items() if key.startswith(prefix)}
        return type(self)({**self.explicit, **own}) if own else self

    def of_mechanism(self, name: str) -> Self:
        """The options of one listener (`of_listener`) as they hold for one SASL mechanism: `MECHANISM.x` stands in for
        `x`."""
        prefix = f"{name.lower()}."
        own = {key.removeprefix(prefix): text for key, text in self.explicit.items() if key.startswith(prefix)}
        return type(self)({**self.explicit, **own}) if own else self

    @property
    def has_quorum(self) -> bool:
        """Whether the metadata is in a quorum of controllers."""
        is_named = self.controller_quorum_voters or self.controller_quorum_bootstrap_servers
        elsewhere = self.metadata_store or self.zookeeper_connect
        return bool(self.process_roles and is_named and not elsewhere)

    @property
    def is_controller_only(self) -> bool:
        """Whether it is a node of a metadata quorum without the role of a broker."""
        return self.has_quorum and "broker" not in self.process_roles

    @property
    def folders(self) -> list[str]:
        """The log directories, from log.dirs or else from log.dir."""
        return self.log_dirs or self.log_dir

    @classmethod
    def validate(cls, given: Mapping[str, str]) -> None:
        """InvalidOption for the first value out of bounds or pair of values that contradict each other; unknown names
        are accepted."""
        super().validate({base_name(name): text for name, text in given.items()})
        if all(name in given for name in _SAME_ID) and given["node.id"].strip() != given["broker.id"].strip():
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
        """The given names that are not options, in order; a listener's options count by their own name."""
        return [name for name in given if base_name(name) not in cls.OPTIONS]

    @classmethod
    def ignored(cls, given: Mapping[str, str]) -> list[str]:
        """The given names that are Kafka's but have no effect on a broker of Tidelog, in order."""
        of_others = {} if cls(given).has_quorum else QuorumOptions.OPTIONS
        return [name for name in given if name in of_others or (name in cls.OPTIONS and cls.OPTIONS[name].ignored)]


_ORDERED: Sequence[tuple[str, str]] = (
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
)
"""Pairs whose first value must not exceed the second."""


def base_name(name: str) -> str:
    """The option that the prefix `listener.name.NAME.` or `listener.name.NAME.MECHANISM.` restricts to one listener."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    base = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return next((each for each in _PER_MECHANISM if base.endswith(f".{each}")), base)


def _with_both_ids(properties: Mapping[str, str]) -> dict[str, str]:
    """node.id and broker.id are the same: if only one is given, the other gets its value."""
    given = dict(properties)
    for name, other in (_SAME_ID, _SAME_ID[::-1]):
        if name in given:
            given.setdefault(other, given[name])
    return given


class InheritingOptions(Options):
    """The options set for one entity, with a fallback to the broker's."""

    def __init__(self, overrides: Mapping[str, str], broker: BrokerConfig) -> None:
        self.explicit = overrides
        self.broker = broker

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.explicit)!r})"

    def value_of(self, option: Option[T]) -> T:
        text = self.explicit.get(option.name)
        return self.inherited(option) if text is None else option.parse(text)

    def inherited(self, option: Option[T]) -> T:
        """The value without an override: the first synonym that the broker sets, otherwise the default."""
        for synonym in option.synonyms:
            text = self.broker.explicit.get(synonym.name)
            if text is not None:
                value: T = _scaled(BrokerConfig.OPTIONS[synonym.name].parse(text), synonym.factor)
                return value
        return option.default


def _scaled(value: Any, factor: int) -> Any:
    """A time in the entity's unit; every negative time means no limit, as in Kafka."""
    if factor == 1 or value is None:
        return value
    return value * factor if value >= 0 else -1
