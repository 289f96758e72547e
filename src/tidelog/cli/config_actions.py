"""What `tidelog configs` does: describe and alter options and client quotas; prints what kafka-configs prints."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from tidelog.cli.admin_requests import alter_configs, describe_configs, describe_error, metadata
from tidelog.cli.options import CommandFailed, usage_error
from tidelog.cli.security import scram_users
from tidelog.client.admin import ANY
from tidelog.config.alter import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from tidelog.config.quotas import CLIENT_ID, CLIENT_QUOTAS, IP, IP_QUOTAS, USER, Match
from tidelog.errors import ApiError, ErrorCode
from tidelog.security.scram import MECHANISMS, MIN_ITERATIONS
from tidelog.shell.transport import Admin
from tidelog.wire.messages.cluster.client_quotas import (
    AlterClientQuotasRequest,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribedEntry,
    EntityData,
    EntryData,
    OpData,
)
from tidelog.wire.messages.configs.describe_configs import ListConfigResourcesRequest
from tidelog.wire.messages.groups.group_admin import ListGroupsRequest
from tidelog.wire.messages.security.scram_credentials import ScramCredentialUpsertion

_CREDENTIAL = re.compile(r"(?:iterations=(?P<iterations>-?[0-9]+),)?password=(?P<password>.*)", re.DOTALL)
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

QUOTA_ENTITY_TYPES = {"users": USER, "clients": CLIENT_ID, "ips": IP}
QUOTA_ENTITY_TITLES = {USER: "user-principal", CLIENT_ID: "client-id", IP: "ip"}

Entities = Sequence[tuple[str, str | None]]
"""Pairs of kind and name; the name is '' for the default entity, None for every entity of the kind."""


class ResourceKind(NamedTuple):
    """A kind of resource: its number in the protocol, its name in messages, and the source of options set on it."""

    number: int
    word: str
    source: int


RESOURCE_KINDS = {
    "topics": ResourceKind(TOPIC, "topic", 1),
    "brokers": ResourceKind(BROKER, "broker", 2),
    "groups": ResourceKind(GROUP, "group", 8),
    "client-metrics": ResourceKind(CLIENT_METRICS, "client-metric", 7),
    "broker-loggers": ResourceKind(BROKER_LOGGER, "broker-logger", 6),
}


def describe_options(admin: Admin, kind: str, name: str | None, *, everything: bool) -> None:
    """Print the options of an entity, or of every entity of the kind if `name` is None."""
    entities = _entities(admin, kind)
    if name is None:
        names = [*entities, *([""] if kind == "brokers" else [])]
    elif name and name not in entities and not (everything and kind == "groups"):
        raise CommandFailed(f"The {RESOURCE_KINDS[kind].word} '{name}' doesn't exist and doesn't have dynamic config.")
    else:
        names = [name]
    for each in names:
        _describe_entity(admin, kind, each, everything=everything)


def _entities(admin: Admin, kind: str) -> list[str]:
    """The names of all entities of the kind; IDs for brokers."""
    if kind == "topics":
        return sorted(topic.name or "" for topic in metadata(admin).topics)
    if kind in ("brokers", "broker-loggers"):
        return [str(broker) for broker in sorted(broker.node_id for broker in metadata(admin, []).brokers)]
    found = set(_groups(admin)) if kind == "groups" else set()
    request = ListConfigResourcesRequest(resource_types=[RESOURCE_KINDS[kind].number])
    try:
        found.update(each.resource_name for each in admin.ask(request, ANY).config_resources)
    except ApiError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
    return sorted(found)


def _groups(admin: Admin) -> list[str]:
    brokers = [broker.node_id for broker in metadata(admin, []).brokers]
    return sorted({group.group_id for broker in brokers for group in admin.ask(ListGroupsRequest(), broker).groups})


def _describe_entity(admin: Admin, kind: str, name: str, *, everything: bool) -> None:
    which = RESOURCE_KINDS[kind]
    is_default = kind == "brokers" and not name
    if is_default:
        title = f"{'All' if everything else 'Default'} configs for brokers in the cluster are:"
    else:
        title = f"{'All' if everything else 'Dynamic'} configs for {which.word} {name} are:"
    click.echo(title)
    source = DEFAULT_BROKERS_SOURCE if is_default else which.source
    found = describe_configs(admin, which.number, [name], broker=_target_broker(kind, name), synonyms=True).get(
        name, []
    )
    for entry in sorted(found, key=lambda each: str(each.name)):
        if everything or entry.config_source == source:
            click.echo(option_line(entry))


def _target_broker(kind: str, name: str) -> int:
    """The broker to send the request to: only the broker itself serves its own options."""
    return int(name) if kind in ("brokers", "broker-loggers") and name else ANY


def option_line(entry: Any) -> str:
    """The line of one option: its value, and where the value comes from."""
    synonyms = ", ".join(f"{SOURCES.get(each.source)}:{each.name}={_text(each.value)}" for each in entry.synonyms)
    sensitive = "true" if entry.is_sensitive else "false"
    return f"  {entry.name}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else value


def alter_options(admin: Admin, kind: str, name: str, *, set_: Mapping[str, str], remove: Sequence[str]) -> None:
    """Set and remove options of one entity in one request."""
    which = RESOURCE_KINDS[kind]
    changes = [*set_.items(), *((each, None) for each in remove)]
    alter_configs(admin, which.number, name, changes, broker=_target_broker(kind, name))
    if kind == "brokers" and not name:
        click.echo("Completed updating default config for brokers in the cluster.")
    else:
        click.echo(f"Completed updating config for {which.word} {name}.")


def quota_entries(admin: Admin, entities: Entities) -> list[DescribedEntry]:
    """The entities of exactly these types that have quotas; of all types if none is named."""
    components = [
        ComponentData(entity_type=QUOTA_ENTITY_TYPES[kind], match_type=_name_match(name), match=name or None)
        for kind, name in entities
    ]
    response = admin.ask(DescribeClientQuotasRequest(components=components, strict=bool(components)), ANY)
    if response.error_code:
        raise CommandFailed(describe_error(response.error_code, response.error_message))
    return list(response.entries or ())


def _quotas_set(admin: Admin, entities: Entities) -> set[str]:
    return {value.key for entry in quota_entries(admin, entities) for value in entry.values}


def describe_quotas(admin: Admin, entities: Entities) -> None:
    """Print a line for each entity that has quotas."""
    for entry in quota_entries(admin, entities):
        named = {part.entity_type: part.entity_name for part in entry.entity}
        who = ", ".join(_quota_entity(kind, named[kind]) for kind in (USER, CLIENT_ID, IP) if kind in named)
        click.echo(f"Quota configs for {who} are {', '.join(f'{each.key}={each.value}' for each in entry.values)}")


def describe_clients(admin: Admin, entities: Entities) -> None:
    """Print the quotas of users, clients or addresses, and the SCRAM credentials of users."""
    describe_quotas(admin, entities)
    ((kind, name), *others) = entities
    if kind == "users" and name != "" and not others:
        for user, credentials in scram_users.known(admin, [name] if name else []).items():
            listed = ", ".join(f"{each.mechanism}=iterations={each.iterations}" for each in credentials)
            click.echo(f"SCRAM credential configs for user-principal '{user}' are {listed}")


def _name_match(name: str | None) -> Match:
    if name is None:
        return Match.ANY
    return Match.EXACT if name else Match.DEFAULT


def _quota_entity(kind: str, name: str | None) -> str:
    return f"the default {QUOTA_ENTITY_TITLES[kind]}" if name is None else f"{QUOTA_ENTITY_TITLES[kind]} '{name}'"


def alter_clients(admin: Admin, entities: Entities, *, set_: Mapping[str, str], remove: Sequence[str]) -> None:
    """Set and remove quotas, or SCRAM credentials of one user."""
    passwords = {name: text for name, text in set_.items() if name in MECHANISMS}
    removed = [name for name in remove if name in MECHANISMS]
    if not passwords and not removed:
        alter_quotas(admin, entities, set_=set_, remove=remove)
    else:
        if [kind for kind, _ in entities] != ["users"] or not entities[0][1]:
            raise CommandFailed("SCRAM credentials require one user: --entity-type users --entity-name NAME.")
        if len(passwords) < len(set_) or len(removed) < len(remove):
            raise CommandFailed("SCRAM credentials and quotas cannot be altered together.")
        user = entities[0][1]
        scram_users.alter(
            admin,
            [scram_users.deletion(user, name) for name in removed],
            [_upsertion(user, name, text) for name, text in passwords.items()],
        )
    kind, name = entities[0]
    if name:
        click.echo(f"Completed updating config for {kind.removesuffix('s')} {name}.")
    else:
        click.echo(f"Completed updating default config for {kind} in the cluster.")


def _upsertion(user: str, mechanism: str, text: str) -> ScramCredentialUpsertion:
    """From `password=…` or `iterations=…,password=…`."""
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        raise CommandFailed(f"{mechanism}: expected [password=PASSWORD] or [iterations=N,password=PASSWORD].")
    iterations = MIN_ITERATIONS if match["iterations"] in (None, "-1") else int(match["iterations"])
    if iterations < MIN_ITERATIONS:
        raise CommandFailed(f"{mechanism}: iterations must be at least {MIN_ITERATIONS}, not {iterations}.")
    return scram_users.upsertion(user, mechanism, match["password"], iterations)


def alter_quotas(admin: Admin, entities: Entities, *, set_: Mapping[str, str], remove: Sequence[str]) -> None:
    allowed = IP_QUOTAS if entities[0][0] == "ips" else CLIENT_QUOTAS
    unknown = [name for name in (*set_, *remove) if name not in allowed]
    if unknown:
        kinds = " and ".join(kind for kind, _ in entities)
        raise CommandFailed(
            f"{', '.join(unknown)}: not a valid quota of {kinds}; expected one of {', '.join(allowed)}."
        )
    absent = set(remove) - _quotas_set(admin, entities) if remove else set()
    if absent:
        raise CommandFailed(f"{', '.join(sorted(absent))}: cannot be removed because it is not set.")
    ops = [OpData(key=name, value=_quota_value(name, text)) for name, text in set_.items()]
    ops += [OpData(key=name, remove=True) for name in remove]
    entity = [EntityData(entity_type=QUOTA_ENTITY_TYPES[kind], entity_name=name or None) for kind, name in entities]
    for result in admin.ask(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)])).entries:
        if result.error_code:
            raise CommandFailed(describe_error(result.error_code, result.error_message))


def _quota_value(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise usage_error(f"{name}: {text!r} is not a number.") from None
