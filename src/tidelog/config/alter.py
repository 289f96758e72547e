"""How IncrementalAlterConfigs and AlterConfigs change the given values: old values and changes in, new values out.

A change that is not valid raises an ApiError with Kafka's code, and nothing of the request is applied: INVALID_CONFIG
for a wrong value of a topic or group, INVALID_REQUEST for a broker's and for a malformed request.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from tidelog.config import option_types
from tidelog.config.broker import BrokerConfig, base_name
from tidelog.config.families.security_options import STORES
from tidelog.config.group import GroupConfig
from tidelog.config.option import Dynamic, Options
from tidelog.config.topic import TopicConfig
from tidelog.errors import ApiError, ErrorCode, InvalidOption

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)
"""Kafka's numbers of the resource types that have options."""


class Operation(IntEnum):
    """What to do with one option, by its number in IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    name: str
    operation: int
    value: str | None


def alter_topic(current: Mapping[str, str], changes: Sequence[Change], broker: BrokerConfig) -> dict[str, str]:
    """A topic's overrides after `changes`; `broker` gives the values that the topic falls back to."""
    altered = _altered(current, changes, TopicConfig)
    check_topic(altered, broker)
    return altered


def check_topic(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raises INVALID_CONFIG if a topic cannot have these overrides; CreateTopics uses it as well."""
    _checked(lambda: TopicConfig.validate(overrides, broker), ErrorCode.INVALID_CONFIG)


def alter_group(current: Mapping[str, str], changes: Sequence[Change], broker: BrokerConfig) -> dict[str, str]:
    """A group's overrides after `changes`."""
    altered = _altered(current, changes, GroupConfig)
    _checked(lambda: GroupConfig.validate(altered, broker), ErrorCode.INVALID_CONFIG)
    return altered


def alter_broker(current: Mapping[str, str], changes: Sequence[Change], *, cluster: bool) -> dict[str, str]:
    """The dynamic options of one broker, or with `cluster` of all brokers, after `changes`."""
    altered = _altered(current, changes, BrokerConfig)
    check_broker(altered, cluster=cluster)
    return altered


def check_broker(dynamic: Mapping[str, str], *, cluster: bool) -> None:
    """Raises INVALID_REQUEST if these options cannot be set while brokers run; unknown names are accepted, as in
    Kafka."""
    for breaks_rule, sentence in _CLUSTER_RULES if cluster else _BROKER_RULES:
        names = [name for name in dynamic if breaks_rule(name)]
        if names:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{', '.join(names)}: {sentence}")
    _checked(lambda: BrokerConfig.validate(dynamic), ErrorCode.INVALID_REQUEST)


def _altered(current: Mapping[str, str], changes: Sequence[Change], options: type[Options]) -> dict[str, str]:
    names = [change.name for change in changes]
    if len(set(names)) < len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a request must name each option only once")
    altered = dict(current)
    for change in changes:
        if change.operation == Operation.DELETE:
            altered.pop(change.name, None)
        else:
            altered[change.name] = _new_value(altered, change, options)
    return altered


def _new_value(current: Mapping[str, str], change: Change, options: type[Options]) -> str:
    if change.value is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{change.name} requires a value")
    if change.operation == Operation.SET:
        return change.value
    if change.operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{change.operation} is not a valid operation on {change.name}")
    option = options.OPTIONS.get(change.name)
    if option is None or option.kind is not option_types.LIST:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{change.name} is not a list; APPEND and SUBTRACT require one")
    text = current.get(change.name)
    old = (option.default or []) if text is None else option.parse(text)
    named = option_types.LIST.parse(change.value)
    if change.operation == Operation.SUBTRACT:
        return ",".join(item for item in old if item not in named)
    return ",".join(dict.fromkeys([*old, *named]))


def _checked(check: Callable[[], None], code: ErrorCode) -> None:
    try:
        check()
    except InvalidOption as error:
        raise ApiError(code, str(error)) from error


def _is_read_only(name: str) -> bool:
    option = BrokerConfig.OPTIONS.get(name)
    return option is not None and option.is_read_only


def _needs_listener(name: str) -> bool:
    return name in BrokerConfig.OPTIONS and name.startswith(STORES)


def _is_per_broker(name: str) -> bool:
    option = BrokerConfig.OPTIONS.get(base_name(name))
    return option is not None and (option.dynamic is Dynamic.PER_BROKER or option.name != name)


def _is_read_at_startup(name: str) -> bool:
    """Kafka can open listeners while it runs; Tidelog cannot. Who may log in, with which classes, files and URLs, is
    never up to a client: in Kafka such options have loaded classes (CVE-2023-25194)."""
    base = base_name(name)
    return name in {"listeners", "listener.security.protocol.map"} or base.startswith(_OF_LOGINS)


_OF_LOGINS = ("sasl.", "connections.max.reauth.ms", "principal.builder.class")

_BROKER_RULES: Sequence[tuple[Callable[[str], bool], str]] = (
    (_is_read_only, "can only be set in the broker's file"),
    (_is_read_at_startup, "is read only at startup, from the broker's file"),
    (_needs_listener, "requires a listener prefix"),
)
_CLUSTER_RULES = (*_BROKER_RULES, (_is_per_broker, "can only be set for a single broker"))
