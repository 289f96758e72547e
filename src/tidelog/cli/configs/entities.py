"""Whose options the flags of a command line mean, in the long form or in short ones."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.cli.options import is_given, usage
from tidelog.config.quotas import is_address

KINDS = ("topics", "brokers", "users", "clients", "ips", "groups", "client-metrics", "broker-loggers")
QUOTA_KINDS = ("users", "clients", "ips")
NAMED_BY_FLAG = ("brokers", *QUOTA_KINDS)
"""Kinds that have a default for all."""

SHORT = {
    "topic": "topics",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "group": "groups",
    "client-metrics": "client-metrics",
    "user": "users",
    "client": "clients",
    "ip": "ips",
}
DEFAULTS = {"broker-defaults": "brokers", "user-defaults": "users", "client-defaults": "clients", "ip-defaults": "ips"}


class Entity(NamedTuple):
    """What is described or altered: `name` is '' for the default of all, None for each one there is."""

    kind: str
    name: str | None


def entities_of(given: Mapping[str, Any]) -> list[Entity]:
    """One entity, or a user and a client id; UsageError where the flags name nothing that can be."""
    kinds, names = list(given["entity_type"]), list(given["entity_name"])
    for option, kind in SHORT.items():
        if is_given(given[option.replace("-", "_")]):
            kinds.append(kind)
            names.append(given[option.replace("-", "_")])
    for option, kind in DEFAULTS.items():
        if given[option.replace("-", "_")]:
            kinds.append(kind)
            names.append("")
    _check_kinds(kinds, names)
    found = [Entity(kind, names[number] if number < len(names) else None) for number, kind in enumerate(kinds)]
    for entity in found:
        _check_name(entity)
    return sorted(found, key=lambda entity: KINDS.index(entity.kind))


def _check_kinds(kinds: list[str], names: list[str]) -> None:
    if not kinds:
        raise usage("--entity-type is needed, or one of its short forms.")
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise usage(f"{kind} may be named once.")
    if len(kinds) > 1 and set(kinds) != {"users", "clients"}:
        raise usage(f"Of the types of entities only users and clients go together, not {' and '.join(kinds)}.")
    if len(names) > len(kinds):
        raise usage(f"{names[-1]!r} is one name more than there are types of entities.")


def _check_name(entity: Entity) -> None:
    kind, name = entity
    if name == "" and kind not in NAMED_BY_FLAG:
        raise usage(f"--entity-default goes with {', '.join(NAMED_BY_FLAG)}, not with {kind}.")
    if not name:
        return
    if kind in ("brokers", "broker-loggers") and not name.isdigit():
        raise usage(f"--entity-name of {kind} must be a broker id, not {name!r}.")
    if kind == "ips" and not is_address(name):
        raise usage(f"--entity-name of ips must be an address or a host's name, not {name!r}.")
