"""`tidelog configs`: the flags of kafka-configs, for topics, brokers, groups and client metrics."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import click

from tidelog.cli.options import (
    Refused,
    at_most_one,
    check_belongs,
    check_needed,
    cluster_options,
    flag,
    is_given,
    one_action,
    usage,
)

ACTIONS = ("describe", "alter")
BELONGS = {
    "all": ("describe",),
    "add-config": ("alter",),
    "add-config-file": ("alter",),
    "delete-config": ("alter",),
}
KINDS = ("topics", "brokers", "groups", "client-metrics", "broker-loggers")
SHORTHANDS = {"topic": "topics", "broker": "brokers", "group": "groups", "client-metrics": "client-metrics"}


class Entity(NamedTuple):
    """What is described or altered: `name` is '' for the default of all, None for each one there is."""

    kind: str
    name: str | None


@click.command()
@cluster_options
@flag("describe", "Show the options that are set.")
@flag("alter", "Set and remove options.")
@flag("all", "Show all options, with their defaults.")
@click.option("--entity-type", type=click.Choice(KINDS), help="Whose options.")
@click.option("--entity-name", help="The topic, broker id, group or subscription.")
@flag("entity-default", "The default of all brokers.")
@click.option("--topic", help="The same as --entity-type topics --entity-name NAME.")
@click.option("--broker", help="The same as --entity-type brokers --entity-name ID.")
@flag("broker-defaults", "The same as --entity-type brokers --entity-default.")
@click.option("--group", help="The same as --entity-type groups --entity-name NAME.")
@click.option("--client-metrics", help="The same as --entity-type client-metrics --entity-name NAME.")
@click.option("--add-config", help="Options to set: k1=v1,k2=[v1,v2,v3].")
@click.option("--add-config-file", type=click.Path(exists=True, dir_okay=False), help="A properties file to set.")
@click.option("--delete-config", help="Options to remove: k1,k2.")
def configs(**given: Any) -> None:
    """Describe and alter options, with the flags of kafka-configs."""
    action = one_action(given, ACTIONS)
    check_belongs(given, action, BELONGS)
    entity = entity_of(given)
    if action == "alter":
        _check_alter(given, entity)
    from tidelog.cli import config_entities
    from tidelog.cli.cluster import connect

    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        if action == "describe":
            config_entities.describe(admin, entity.kind, entity.name, everything=given["all"])
        else:
            config_entities.alter(admin, entity.kind, entity.name or "", set_=additions(given), remove=_removals(given))


def _check_alter(given: dict[str, Any], entity: Entity) -> None:
    if entity.name is None:
        raise usage(f"--alter of {entity.kind} needs --entity-name.")
    if not is_given(given["add_config_file"]) and not is_given(given["delete_config"]):
        check_needed(given, "alter", ("add-config",))
    at_most_one(given, ("add-config", "add-config-file"))


def entity_of(given: dict[str, Any]) -> Entity:
    """The entity that the flags name, in the long form or in a short one."""
    short = at_most_one(given, ("entity-type", *SHORTHANDS, "broker-defaults"))
    if short is None:
        raise usage("--entity-type is needed, or one of its short forms.")
    if short == "broker-defaults":
        return Entity("brokers", "")
    if short != "entity-type":
        return Entity(SHORTHANDS[short], given[short.replace("-", "_")])
    kind = given["entity_type"]
    if at_most_one(given, ("entity-name", "entity-default")) == "entity-default":
        if kind != "brokers":
            raise usage(f"--entity-default goes with brokers, not with {kind}.")
        return Entity(kind, "")
    name = given["entity_name"]
    if kind in ("brokers", "broker-loggers") and name is not None and not name.isdigit():
        raise usage(f"--entity-name of {kind} must be a broker id, not {name!r}.")
    return Entity(kind, name)


def additions(given: dict[str, Any]) -> dict[str, str]:
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
            raise Refused(f"--add-config must be key=value or key=[value,value] with commas between, not {pair!r}.")
        value = value.strip()
        found[name.strip()] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return found


def _removals(given: dict[str, Any]) -> list[str]:
    return [name.strip() for name in (given["delete_config"] or "").split(",") if name.strip()]
