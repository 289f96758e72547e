"""`--list`: the groups of all brokers."""

from collections.abc import Mapping
from typing import Any

import click

from tidelog.cli.cluster import metadata, reason
from tidelog.cli.options import Refused, usage
from tidelog.cli.table import Column, lines
from tidelog.shell.transport import Admin
from tidelog.wire.messages.groups.list_groups import ListGroupsRequest

STATES = {
    state.lower(): state
    for state in ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
}
TYPES = {"classic": "Classic", "consumer": "Consumer"}
PLAIN_PROTOCOLS = ("", "consumer")
"""Protocol types of consumer groups; Connect's and others' groups are not listed."""


def all_groups(admin: Admin, states: list[str] | None = None, types: list[str] | None = None) -> list[Any]:
    """ListedGroup of every consumer group, sorted by name, asked of each broker."""
    request = ListGroupsRequest(states_filter=states or [], types_filter=types or [])
    found = {}
    for broker in metadata(admin, []).brokers:
        response = admin.ask(request, broker.node_id)
        if response.error_code:
            raise Refused(f"Broker {broker.node_id}: {reason(response.error_code)}")
        found.update({group.group_id: group for group in response.groups if group.protocol_type in PLAIN_PROTOCOLS})
    return [found[name] for name in sorted(found)]


def list_groups(admin: Admin, given: Mapping[str, Any]) -> None:
    states = _words(given["state"], STATES, "state")
    types = _words(given["type"], TYPES, "type")
    listed = all_groups(admin, states, types)
    if states is None and types is None:
        for group in listed:
            click.echo(group.group_id)
        return
    width = max([15, *(len(group.group_id) for group in listed)]) + 10
    heads = ["GROUP", *(["TYPE"] if types is not None else []), *(["STATE"] if states is not None else [])]
    columns = [Column(heads[0], width), *(Column(head, 20) for head in heads[1:])]
    for line in lines(columns, (_row(group, heads) for group in listed)):
        click.echo(line)


def _row(group: Any, heads: list[str]) -> list[str]:
    kind = group.group_type or "classic"
    cells = {"GROUP": group.group_id, "TYPE": TYPES.get(kind.lower(), kind), "STATE": group.group_state or "Unknown"}
    return [cells[head] for head in heads]


def _words(text: str | None, known: Mapping[str, str], what: str) -> list[str] | None:
    """Kafka's spelling of the given words; [] where all are meant, None where the option is not given."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word.lower() not in known:
            raise usage(f"--{what} must be of {', '.join(known.values())}, not {word!r}.")
    return [known[word.lower()] for word in words]
