"""`tidelog configs`, with the flags of kafka-configs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from tidelog.cli.options import (
    CommandFailed,
    at_most_one,
    check_applicable,
    cluster_options,
    flag,
    is_given,
    single_action,
    usage_error,
)
from tidelog.config.quotas import is_address

ACTIONS = ("describe", "alter")
ACTIONS_OF_OPTION = {
    "all": ("describe",),
    "add-config": ("alter",),
    "add-config-file": ("alter",),
    "delete-config": ("alter",),
}
_NAME = re.compile(r"[A-Za-z0-9._-]*")

KINDS = ("topics", "brokers", "users", "clients", "ips", "groups", "client-metrics", "broker-loggers")
QUOTA_KINDS = ("users", "clients", "ips")
KINDS_WITH_DEFAULT = ("brokers", *QUOTA_KINDS)
"""Kinds that have a default entity."""

KIND_OF_FLAG = {
    "topic": "topics",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "group": "groups",
    "client-metrics": "client-metrics",
    "user": "users",
    "client": "clients",
    "ip": "ips",
}

KIND_OF_DEFAULT_FLAG = {
    "broker-defaults": "brokers",
    "user-defaults": "users",
    "client-defaults": "clients",
    "ip-defaults": "ips",
}


class ConfigEntity(NamedTuple):
    """What is described or altered; `name` is '' for the default entity, None for every entity of the kind."""

    kind: str
    name: str | None


@click.command()
@cluster_options
@flag("describe", "Show the options that are set.")
@flag("alter", "Set or remove options.")
@flag("all", "Show all options, including defaults.")
@click.option(
    "--entity-type",
    "entity_type",
    multiple=True,
    type=click.Choice(KINDS),
    help="Entity type; users and clients may be combined.",
)
@click.option(
    "--entity-name",
    "entity_name",
    multiple=True,
    help="Topic, broker ID, group, user, client ID or address, one per --entity-type.",
)
@click.option("--entity-default", "entity_name", flag_value="", multiple=True, help="The default of the entity type.")
@click.option("--topic", help="Short for --entity-type topics --entity-name NAME.")
@click.option("--broker", help="Short for --entity-type brokers --entity-name ID.")
@click.option("--broker-logger", help="Short for --entity-type broker-loggers --entity-name ID.")
@click.option("--group", help="Short for --entity-type groups --entity-name NAME.")
@click.option("--client-metrics", help="Short for --entity-type client-metrics --entity-name NAME.")
@click.option("--user", help="Short for --entity-type users --entity-name NAME.")
@click.option("--client", help="Short for --entity-type clients --entity-name ID.")
@click.option("--ip", help="Short for --entity-type ips --entity-name ADDRESS.")
@flag("broker-defaults", "Short for --entity-type brokers --entity-default.")
@flag("user-defaults", "Short for --entity-type users --entity-default.")
@flag("client-defaults", "Short for --entity-type clients --entity-default.")
@flag("ip-defaults", "Short for --entity-type ips --entity-default.")
@click.option("--add-config", help="Options to set, e.g. k1=v1,k2=[v1,v2,v3].")
@click.option(
    "--add-config-file", type=click.Path(exists=True, dir_okay=False), help="Properties file with options to set."
)
@click.option("--delete-config", help="Options to remove, e.g. k1,k2.")
def configs(**given: Any) -> None:
    """Describe and alter options, quotas and SCRAM users, with the flags of kafka-configs."""
    action = single_action(given, ACTIONS)
    check_applicable(given, action, ACTIONS_OF_OPTION)
    entities = entities_of(given)
    if action == "alter":
        _check_alter(given, entities)
        changes, removals = parse_additions(given), _parse_removals(given)
    from tidelog.cli import config_actions
    from tidelog.cli.admin_requests import connect

    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        is_quota = entities[0].kind in QUOTA_KINDS
        if action == "describe" and is_quota:
            config_actions.describe_clients(admin, entities)
        elif action == "describe":
            config_actions.describe_options(admin, *entities[0], everything=given["all"])
        elif is_quota:
            config_actions.alter_clients(admin, entities, set_=changes, remove=removals)
        else:
            config_actions.alter_options(admin, entities[0].kind, entities[0].name or "", set_=changes, remove=removals)


def _check_alter(given: dict[str, Any], entities: list[ConfigEntity]) -> None:
    for entity in entities:
        if entity.name is None:
            raise usage_error(f"--alter of {entity.kind} requires --entity-name{_or_default(entity.kind)}.")
    if not any(is_given(given[each]) for each in ("add_config", "add_config_file", "delete_config")):
        raise usage_error("--alter requires --add-config, --add-config-file or --delete-config.")
    at_most_one(given, ("add-config", "add-config-file"))


def _or_default(kind: str) -> str:
    return " or --entity-default" if kind in KINDS_WITH_DEFAULT else ""


def parse_additions(given: dict[str, Any]) -> dict[str, str]:
    """The options that --add-config or --add-config-file sets."""
    if given["add_config_file"]:
        from tidelog.config import properties

        return properties.parse(Path(given["add_config_file"]).read_text(encoding="utf-8"))
    found = {}
    for pair in re.split(r",(?![^\[\]]*\])", given["add_config"] or ""):
        if not pair.strip():
            continue
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise CommandFailed(
                f"--add-config: {pair!r} is not a valid setting; expected key=value or key=[value,value]."
            )
        if _NAME.fullmatch(name.strip()) is None:
            raise CommandFailed(f"--add-config: {name.strip()!r} is not a valid option name.")
        value = value.strip()
        found[name.strip()] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return found


def _parse_removals(given: dict[str, Any]) -> list[str]:
    return [name.strip() for name in (given["delete_config"] or "").split(",") if name.strip()]


def entities_of(given: Mapping[str, Any]) -> list[ConfigEntity]:
    """The entity that the flags name, or a user and a client; UsageError if the flags do not go together."""
    kinds, names = list(given["entity_type"]), list(given["entity_name"])
    for option, kind in KIND_OF_FLAG.items():
        if is_given(given[option.replace("-", "_")]):
            kinds.append(kind)
            names.append(given[option.replace("-", "_")])
    for option, kind in KIND_OF_DEFAULT_FLAG.items():
        if given[option.replace("-", "_")]:
            kinds.append(kind)
            names.append("")
    _check_kinds(kinds, names)
    found = [ConfigEntity(kind, names[number] if number < len(names) else None) for number, kind in enumerate(kinds)]
    for entity in found:
        _check_name(entity)
    return sorted(found, key=lambda entity: KINDS.index(entity.kind))


def _check_kinds(kinds: list[str], names: list[str]) -> None:
    if not kinds:
        raise usage_error("--entity-type or one of its short forms is required.")
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise usage_error(f"{kind} may be given only once.")
    if len(kinds) > 1 and set(kinds) != {"users", "clients"}:
        raise usage_error(f"Only users and clients may be combined, not {' and '.join(kinds)}.")
    if len(names) > len(kinds):
        raise usage_error(f"{names[-1]!r} is a name without an entity type.")


def _check_name(entity: ConfigEntity) -> None:
    kind, name = entity
    if name == "" and kind not in KINDS_WITH_DEFAULT:
        raise usage_error(f"--entity-default applies to {', '.join(KINDS_WITH_DEFAULT)}, not to {kind}.")
    if not name:
        return
    if kind in ("brokers", "broker-loggers") and not name.isdigit():
        raise usage_error(f"--entity-name: {name!r} is not a broker ID.")
    if kind == "ips" and not is_address(name):
        raise usage_error(f"--entity-name: {name!r} is not an IP address or host name.")
