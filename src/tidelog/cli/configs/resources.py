"""Describing and altering the options of one entity or of all of a kind, in kafka-configs' form."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from tidelog.cli.cluster import alter_configs, describe_configs, metadata
from tidelog.cli.options import Refused
from tidelog.client.admin import ANY
from tidelog.config.alter import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from tidelog.errors import ApiError, ErrorCode
from tidelog.shell.transport import Admin
from tidelog.wire.messages.configs.list_config_resources import ListConfigResourcesRequest
from tidelog.wire.messages.groups.list_groups import ListGroupsRequest

DEFAULT_BROKERS_SOURCE = 3
SOURCES = {
    0: "UNKNOWN",
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}


class Kind(NamedTuple):
    """A kind of entity: its number in the protocol, its word, and the source of what was set on one of them."""

    number: int
    word: str
    source: int


KINDS = {
    "topics": Kind(TOPIC, "topic", 1),
    "brokers": Kind(BROKER, "broker", 2),
    "groups": Kind(GROUP, "group", 8),
    "client-metrics": Kind(CLIENT_METRICS, "client-metric", 7),
    "broker-loggers": Kind(BROKER_LOGGER, "broker-logger", 6),
}


def describe(admin: Admin, kind: str, name: str | None, *, everything: bool) -> None:
    """Print the options of an entity, or of each where no name is given."""
    entities = _entities(admin, kind)
    if name is None:
        names = [*entities, *([""] if kind == "brokers" else [])]
    elif name and name not in entities and not (everything and kind == "groups"):
        raise Refused(f"The {KINDS[kind].word} '{name}' doesn't exist and doesn't have dynamic config.")
    else:
        names = [name]
    for each in names:
        _describe_one(admin, kind, each, everything=everything)


def _entities(admin: Admin, kind: str) -> list[str]:
    """The names there are; for brokers their ids."""
    if kind == "topics":
        return sorted(topic.name or "" for topic in metadata(admin).topics)
    if kind in ("brokers", "broker-loggers"):
        return [str(broker) for broker in sorted(broker.node_id for broker in metadata(admin, []).brokers)]
    found = set(_groups(admin)) if kind == "groups" else set()
    request = ListConfigResourcesRequest(resource_types=[KINDS[kind].number])
    try:
        found.update(each.resource_name for each in admin.ask(request, ANY).config_resources)
    except ApiError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
    return sorted(found)


def _groups(admin: Admin) -> list[str]:
    brokers = [broker.node_id for broker in metadata(admin, []).brokers]
    return sorted({group.group_id for broker in brokers for group in admin.ask(ListGroupsRequest(), broker).groups})


def _describe_one(admin: Admin, kind: str, name: str, *, everything: bool) -> None:
    which = KINDS[kind]
    is_default = kind == "brokers" and not name
    if is_default:
        title = f"{'All' if everything else 'Default'} configs for brokers in the cluster are:"
    else:
        title = f"{'All' if everything else 'Dynamic'} configs for {which.word} {name} are:"
    click.echo(title)
    source = DEFAULT_BROKERS_SOURCE if is_default else which.source
    found = describe_configs(admin, which.number, [name], broker=_at(kind, name), synonyms=True).get(name, [])
    for entry in sorted(found, key=lambda each: str(each.name)):
        if everything or entry.config_source == source:
            click.echo(line(entry))


def _at(kind: str, name: str) -> int:
    """Which broker is asked: a broker's own options are its own affair."""
    return int(name) if kind in ("brokers", "broker-loggers") and name else ANY


def line(entry: Any) -> str:
    """One option with where its value comes from."""
    synonyms = ", ".join(f"{SOURCES.get(each.source)}:{each.name}={_text(each.value)}" for each in entry.synonyms)
    sensitive = "true" if entry.is_sensitive else "false"
    return f"  {entry.name}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else value


def alter(admin: Admin, kind: str, name: str, *, set_: Mapping[str, str], remove: Sequence[str]) -> None:
    """Set and remove options of one entity in one request."""
    which = KINDS[kind]
    changes = [*set_.items(), *((each, None) for each in remove)]
    alter_configs(admin, which.number, name, changes, broker=_at(kind, name))
    if kind == "brokers" and not name:
        click.echo("Completed updating default config for brokers in the cluster.")
    else:
        click.echo(f"Completed updating config for {which.word} {name}.")
