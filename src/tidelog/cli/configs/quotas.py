"""Describing and altering client quotas, in kafka-configs' form."""

from collections.abc import Mapping, Sequence

import click

from tidelog.cli.cluster import reason
from tidelog.cli.configs.entities import Entity
from tidelog.cli.options import Refused, usage
from tidelog.client.admin import ANY
from tidelog.config.quotas import CLIENT_ID, IP, OF_ADDRESSES, OF_CLIENTS, USER, Match
from tidelog.shell.transport import Admin
from tidelog.wire.messages.cluster.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from tidelog.wire.messages.cluster.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tidelog.wire.messages.cluster.describe_client_quotas import EntryData as EntryWithQuotas

TYPES = {"users": USER, "clients": CLIENT_ID, "ips": IP}
WORDS = {USER: "user-principal", CLIENT_ID: "client-id", IP: "ip"}


def _entries(admin: Admin, entities: Sequence[Entity]) -> list[EntryWithQuotas]:
    """The entities of just these types that have quotas."""
    components = [
        ComponentData(entity_type=TYPES[kind], match_type=_match(name), match=name or None) for kind, name in entities
    ]
    response = admin.ask(DescribeClientQuotasRequest(components=components, strict=True), ANY)
    if response.error_code:
        raise Refused(reason(response.error_code, response.error_message))
    return list(response.entries or ())


def _set_now(admin: Admin, entities: Sequence[Entity]) -> set[str]:
    return {value.key for entry in _entries(admin, entities) for value in entry.values}


def describe(admin: Admin, entities: Sequence[Entity]) -> None:
    """A line for each entity that has quotas."""
    for entry in _entries(admin, entities):
        named = {part.entity_type: part.entity_name for part in entry.entity}
        who = ", ".join(_who(kind, named[kind]) for kind in (USER, CLIENT_ID, IP) if kind in named)
        click.echo(f"Quota configs for {who} are {', '.join(f'{each.key}={each.value}' for each in entry.values)}")


def _match(name: str | None) -> Match:
    if name is None:
        return Match.ANY
    return Match.EXACT if name else Match.DEFAULT


def _who(kind: str, name: str | None) -> str:
    return f"the default {WORDS[kind]}" if name is None else f"{WORDS[kind]} '{name}'"


def alter(admin: Admin, entities: Sequence[Entity], *, set_: Mapping[str, str], remove: Sequence[str]) -> None:
    allowed = OF_ADDRESSES if entities[0].kind == "ips" else OF_CLIENTS
    unknown = [name for name in (*set_, *remove) if name not in allowed]
    if unknown:
        kinds = " and ".join(entity.kind for entity in entities)
        raise Refused(f"{', '.join(unknown)}: no quota of {kinds}; there are {', '.join(allowed)}.")
    absent = set(remove) - _set_now(admin, entities) if remove else set()
    if absent:
        raise Refused(f"{', '.join(sorted(absent))}: not set, so it cannot be removed.")
    ops = [OpData(key=name, value=_number(name, text)) for name, text in set_.items()]
    ops += [OpData(key=name, remove=True) for name in remove]
    entity = [EntityData(entity_type=TYPES[kind], entity_name=name or None) for kind, name in entities]
    for answer in admin.ask(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)])).entries:
        if answer.error_code:
            raise Refused(reason(answer.error_code, answer.error_message))
    kind, name = entities[0]
    if name:
        click.echo(f"Completed updating config for {kind.removesuffix('s')} {name}.")
    else:
        click.echo(f"Completed updating default config for {kind} in the cluster.")


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise usage(f"{name} must be a number, not {text!r}.") from None
