"""`tidelog configs`: the flags of kafka-configs."""

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
    the_action,
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
"""Kinds that have a default for all."""

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
    """What is described or altered: `name` is '' for the default of all, None for each one there is."""

    kind: str
    name: str | None


@click.command()
@cluster_options
@flag("describe", "Show the options that are set.")
@flag("alter", "Set and remove options.")
@flag("all", "Show all options, with their defaults.")
@click.option(
    "--entity-type",
    "entity_type",
    multiple=True,
    type=click.Choice(KINDS),
    help="Whose options; users and clients go together.",
)
@click.option(
    "--entity-name",
    "entity_name",
    multiple=True,
    help="The topic, broker id, group, user, client id or address; one for each --entity-type.",
)
@click.option("--entity-default", "entity_name", flag_value="", multiple=True, help="The default of the --entity-type.")
@click.option("--topic", help="The same as --entity-type topics --entity-name NAME.")
@click.option("--broker", help="The same as --entity-type brokers --entity-name ID.")
@click.option("--broker-logger", help="The same as --entity-type broker-loggers --entity-name ID.")
@click.option("--group", help="The same as --entity-type groups --entity-name NAME.")
@click.option("--client-metrics", help="The same as --entity-type client-metrics --entity-name NAME.")
@click.option("--user", help="The same as --entity-type users --entity-name NAME.")
@click.option("--client", help="The same as --entity-type clients --entity-name ID.")
@click.option("--ip", help="The same as --entity-type ips --entity-name ADDRESS.")
@flag("broker-defaults", "The same as --entity-type brokers --entity-default.")
@flag("user-defaults", "The same as --entity-type users --entity-default.")
@flag("client-defaults", "The same as --entity-type clients --entity-default.")
@flag("ip-defaults", "The same as --entity-type ips --entity-default.")
@click.option("--add-config", help="Options to set: k1=v1,k2=[v1,v2,v3].")
@click.option("--add-config-file", type=click.Path(exists=True, dir_okay=False), help="A properties file to set.")
@click.option("--delete-config", help="Options to remove: k1,k2.")
def configs(**given: Any) -> None:
    """Describe and alter options and quotas, with the flags of kafka-configs."""
    action = the_action(given, ACTIONS)
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
            config_actions.describe_quotas(admin, entities)
        elif action == "describe":
            config_actions.describe_options(admin, *entities[0], everything=given["all"])
        elif is_quota:
            config_actions.alter_quotas(admin, entities, set_=changes, remove=removals)
        else:
            config_actions.alter_options(admin, entities[0].kind, entities[0].name or "", set_=changes, remove=removals)


def _check_alter(given: dict[str, Any], entities: list[ConfigEntity]) -> None:
    for entity in entities:
        if entity.name is None:
            raise usage_error(f"--alter of {entity.kind} needs --entity-name{_or_default(entity.kind)}.")
    if not any(is_given(given[each]) for each in ("add_config", "add_config_file", "delete_config")):
        raise usage_error("--alter needs --add-config, --add-config-file or --delete-config.")
    at_most_one(given, ("add-config", "add-config-file"))


def _or_default(kind: str) -> str:
    return " or --entity-default" if kind in KINDS_WITH_DEFAULT else ""


def parse_additions(given: dict[str, Any]) -> dict[str, str]:
    """What --add-config or --add-config-file sets."""
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
                f"--add-config must be key=value or key=[value,value] with commas between, not {pair!r}."
            )
        if _NAME.fullmatch(name.strip()) is None:
            raise CommandFailed(f"--add-config names {name.strip()!r}, which can be no option.")
        value = value.strip()
        found[name.strip()] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return found


def _parse_removals(given: dict[str, Any]) -> list[str]:
    return [name.strip() for name in (given["delete_config"] or "").split(",") if name.strip()]


def entities_of(given: Mapping[str, Any]) -> list[ConfigEntity]:
    """One entity, or a user and a client id; UsageError where the flags name nothing that can be."""
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
        raise usage_error("--entity-type is needed, or one of its short forms.")
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise usage_error(f"{kind} may be named once.")
    if len(kinds) > 1 and set(kinds) != {"users", "clients"}:
        raise usage_error(f"Of the types of entities only users and clients go together, not {' and '.join(kinds)}.")
    if len(names) > len(kinds):
        raise usage_error(f"{names[-1]!r} is one name more than there are types of entities.")


def _check_name(entity: ConfigEntity) -> None:
    kind, name = entity
    if name == "" and kind not in KINDS_WITH_DEFAULT:
        raise usage_error(f"--entity-default goes with {', '.join(KINDS_WITH_DEFAULT)}, not with {kind}.")
    if not name:
        return
    if kind in ("brokers", "broker-loggers") and not name.isdigit():
        raise usage_error(f"--entity-name of {kind} must be a broker id, not {name!r}.")
    if kind == "ips" and not is_address(name):
        raise usage_error(f"--entity-name of ips must be an address or a host's name, not {name!r}.")
