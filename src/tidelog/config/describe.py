"""What DescribeConfigs returns: every option with its value, the value's source, and the other layers that set it.

Sources and synonyms follow Kafka 4.3.1 in all details: a topic's option lists its override and then, for every layer,
the first broker option it falls back to. A value that comes from that option's coarser twin (log.retention.hours) is
therefore reported as a default.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from tidelog.config import option_types
from tidelog.config.broker import BrokerConfig, InheritingOptions, base_name
from tidelog.config.group import GroupConfig
from tidelog.config.option import Option
from tidelog.config.topic import TopicConfig


class Source(IntEnum):
    """Where a value comes from, by its number in DescribeConfigs."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    GROUP = 8


class Origin(NamedTuple):
    """One of the layers that set a value, the one in force first; a sensitive value is None."""

    name: str
    value: str | None
    source: Source


class Described(NamedTuple):
    """One option in the response; `type` is Kafka's number of the option's type, 0 for an unknown option."""

    name: str
    value: str | None
    source: Source
    is_sensitive: bool
    read_only: bool
    type: int
    documentation: str | None
    synonyms: list[Origin]


_REQUIRED = ("node.id", "process.roles", "controller.listener.names")
"""Options without a default in Kafka."""

_TWINS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Broker options that set the same value in different units, the finest first."""

_TWINS_OF: Mapping[str, tuple[str, ...]] = {
    **{name: twins for twins in _TWINS for name in twins},
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}


def describe_topic(
    overrides: Mapping[str, str], broker: BrokerConfig, names: Collection[str] | None = None
) -> list[Described]:
    """The options of a topic; `names` None or empty means all."""
    config = TopicConfig(overrides, broker)
    return [
        _inherited(config, option, Source.TOPIC)
        for option in TopicConfig.OPTIONS.values()
        if _is_requested(option.name, names) and (not option.internal or option.name in overrides)
    ]


def describe_group(
    overrides: Mapping[str, str], broker: BrokerConfig, names: Collection[str] | None = None
) -> list[Described]:
    """The options of a group."""
    config = GroupConfig(overrides, broker)
    options = [option for option in GroupConfig.OPTIONS.values() if _is_requested(option.name, names)]
    return [_with_default(_inherited(config, option, Source.GROUP)) for option in options]


def describe_broker(config: BrokerConfig, names: Collection[str] | None = None) -> list[Described]:
    """The options of one broker, including the unknown ones of its file."""
    known = {name for name, option in BrokerConfig.OPTIONS.items() if not (option.internal or option.of_authorizer)}
    shown = known | set(config.explicit)
    return [_broker_option(config, name) for name in sorted(shown) if _is_requested(name, names)]


def describe_cluster(config: BrokerConfig, names: Collection[str] | None = None) -> list[Described]:
    """The cluster-wide dynamic options, which DescribeConfigs returns for the broker named ''."""
    described = [_broker_option(config, name) for name in sorted(config.cluster) if _is_requested(name, names)]
    return [_of_cluster(each, config.cluster[each.name]) for each in described]


def _is_requested(name: str, names: Collection[str] | None) -> bool:
    return not names or name in names


def _with_default(described: Described) -> Described:
    """A group's option without a broker option to fall back to lists itself as its default."""
    if described.synonyms and described.synonyms[-1].source is not Source.GROUP:
        return described
    default = Origin(
        described.name, option_types.format_value(GroupConfig.OPTIONS[described.name].default), Source.DEFAULT
    )
    return described._replace(synonyms=[*described.synonyms, default])


def _inherited(config: InheritingOptions, option: Option[Any], own: Source) -> Described:
    value = option_types.format_value(option.__get__(config, type(config)))
    synonyms: list[Origin] = []
    if option.name in config.explicit:
        synonyms.append(Origin(option.name, value, own))
    if option.synonyms:
        synonyms += _origins(config.broker, option.synonyms[0].name, is_sensitive=False)
    source = synonyms[0].source if synonyms else Source.DEFAULT
    return Described(option.name, value, source, False, False, option.kind.code, option.doc, synonyms)


def may_be_secret(name: str) -> bool:
    """Whether the value of this option of a broker is never shown; an unknown option may hold a secret."""
    option = BrokerConfig.OPTIONS.get(base_name(name))
    return option is None or option.is_sensitive or option.of_authorizer


def _broker_option(config: BrokerConfig, name: str) -> Described:
    option = BrokerConfig.OPTIONS.get(base_name(name))
    is_sensitive = may_be_secret(name)
    synonyms = _origins(config, name, is_sensitive)
    source = synonyms[0].source if synonyms else Source.DEFAULT
    if option is None or option.of_authorizer:
        return Described(name, None, source, True, True, 0, None, synonyms)
    kind = option.kind.code
    if option.name != name:  # the option of one listener
        value = None if is_sensitive else config.explicit[name]
        return Described(name, value, source, is_sensitive, True, kind, None, synonyms)
    value = None if is_sensitive else option_types.format_value(option.__get__(config, BrokerConfig))
    return Described(name, value, source, is_sensitive, option.is_read_only, kind, option.doc, synonyms)


def _of_cluster(described: Described, text: str) -> Described:
    origins = [each for each in described.synonyms if each.source is Source.DYNAMIC_DEFAULT_BROKER]
    value = None if described.is_sensitive else text
    return described._replace(value=value, source=Source.DYNAMIC_DEFAULT_BROKER, synonyms=origins)


def _origins(config: BrokerConfig, name: str, is_sensitive: bool) -> list[Origin]:
    """Every layer's values of the option and its twins, from the first one of the option's own name on."""
    found = list(_layers(config, _TWINS_OF.get(name, (name,)), is_sensitive))
    own = [position for position, origin in enumerate(found) if origin.name == name]
    return found[own[0] :] if own else []


def _layers(config: BrokerConfig, names: tuple[str, ...], is_sensitive: bool) -> Iterator[Origin]:
    layers = (
        (config.broker, Source.DYNAMIC_BROKER),
        (config.cluster, Source.DYNAMIC_DEFAULT_BROKER),
        (config.properties, Source.STATIC_BROKER),
        (_DEFAULTS, Source.DEFAULT),
    )
    for values, source in layers:
        for name in names:
            if name in values:
                yield Origin(name, None if is_sensitive else values[name], source)


_DEFAULTS = {
    name: text
    for name, option in BrokerConfig.OPTIONS.items()
    if name not in _REQUIRED
    and not option.of_authorizer
    and (text := option_types.format_value(option.default)) is not None
}
