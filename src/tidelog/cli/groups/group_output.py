"""`tidelog groups --list` and `--describe`, with kafka-consumer-groups' columns."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from tidelog.cli.admin_requests import LATEST, list_offsets
from tidelog.cli.formatting import MISSING, Column, table_lines
from tidelog.cli.groups.group_requests import (
    all_groups,
    committed_offsets,
    compact_assignment,
    coordinator_of,
    describe_group,
)
from tidelog.cli.options import usage_error
from tidelog.client.group.described import GroupMember, GroupState
from tidelog.explain.core.group_rules import REBALANCING
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin

STATES = {
    state.lower(): state
    for state in ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
}

TYPES = {"classic": "Classic", "consumer": "Consumer"}


def describe(admin: Admin, given: Mapping[str, Any]) -> None:
    """Print offsets, members or state of each group; a group that is empty or rebalancing is reported on stderr."""
    names = [group.group_id for group in all_groups(admin)] if given["all_groups"] else given["group"]
    view = print_members if given["members"] else print_state if given["state"] is not None else print_offsets
    for name in names:
        group = describe_group(admin, name)
        view(admin, group, given["verbose"])
        if group.state == "Empty":
            click.echo(f"\nConsumer group '{name}' has no active members.", err=True)
        elif group.state in REBALANCING:
            click.echo(f"\nWarning: Consumer group '{name}' is rebalancing.", err=True)


def _print(columns: list[Column], rows: list[tuple[object, ...]]) -> None:
    click.echo()
    for line in table_lines(columns, rows):
        click.echo(line)


def print_offsets(admin: Admin, group: GroupState, verbose: bool) -> None:
    positions = committed_offsets(admin, group.name)
    owners = {partition: member for member in group.members for partition in member.assigned}
    partitions = sorted({*positions, *owners})
    if not partitions:
        return
    ends = list_offsets(admin, dict.fromkeys(partitions, LATEST))
    rows = [_offset_row(group, partition, positions, owners, ends, verbose=verbose) for partition in partitions]
    columns = [
        Column("GROUP", 15, grows=True),
        Column("TOPIC", 15, grows=True),
        Column("PARTITION", 10),
        *([Column("LEADER-EPOCH", 15)] if verbose else []),
        Column("CURRENT-OFFSET", 15),
        Column("LOG-END-OFFSET", 15),
        Column("LAG", 15),
        Column("CONSUMER-ID", 15, grows=True),
        Column("HOST", 15, grows=True),
        Column("CLIENT-ID", 0),
    ]
    _print(columns, rows)


def _offset_row(
    group: GroupState,
    partition: TopicPartition,
    positions: Mapping[TopicPartition, Any],
    owners: Mapping[TopicPartition, GroupMember],
    ends: Mapping[TopicPartition, Any],
    *,
    verbose: bool,
) -> tuple[object, ...]:
    position, end, owner = positions.get(partition), ends.get(partition), owners.get(partition)
    current = position.offset if position else None
    last = end.offset if end and not end.error else None
    lag = last - current if last is not None and current is not None else None
    epoch = position.leader_epoch if position and position.leader_epoch >= 0 else None
    member = (owner.id, owner.host, owner.client_id) if owner else (None, None, None)
    return (group.name, *partition, *((epoch,) if verbose else ()), current, last, lag, *member)


def print_members(_admin: Admin, group: GroupState, verbose: bool) -> None:
    named = any(member.instance_id for member in group.members)
    upgrading = verbose and any(member.uses_classic_protocol for member in group.members)
    columns = [
        Column("GROUP", 15, grows=True),
        Column("CONSUMER-ID", 15, grows=True),
        *([Column("GROUP-INSTANCE-ID", 17, grows=True)] if named else []),
        Column("HOST", 15, grows=True),
        Column("CLIENT-ID", 15, grows=True),
        Column("#PARTITIONS", 15),
    ]
    if verbose:
        columns += [
            Column("CURRENT-EPOCH", 15),
            Column("CURRENT-ASSIGNMENT", 20, grows=True),
            Column("TARGET-EPOCH", 15),
            Column("TARGET-ASSIGNMENT", 20, grows=True),
            *([Column("UPGRADED", 0)] if upgrading else []),
        ]
    rows = [
        (*_member_cells(group, member, named=named, verbose=verbose), *_upgraded(member, shown=upgrading))
        for member in group.members
    ]
    if rows or group.state == "Empty":
        _print(columns, rows)


def _member_cells(group: GroupState, member: GroupMember, *, named: bool, verbose: bool) -> Iterator[object]:
    yield from (group.name, member.id)
    if named:
        yield member.instance_id or MISSING
    yield from (member.host, member.client_id, len(member.assigned))
    if verbose:
        yield from (member.epoch, compact_assignment(member.assigned) or MISSING)
        yield from (group.target_epoch, None if member.target is None else compact_assignment(member.target) or MISSING)


def _upgraded(member: GroupMember, *, shown: bool) -> tuple[str, ...]:
    return (str(not member.uses_classic_protocol).lower(),) if shown else ()


def print_state(admin: Admin, group: GroupState, verbose: bool) -> None:
    address, broker = coordinator_of(admin, group.name)
    where = f"{address}  ({broker})"
    columns = [
        Column("GROUP", 15, grows=True),
        Column("COORDINATOR (ID)", 25, grows=True),
        Column("ASSIGNMENT-STRATEGY", 20),
        Column("STATE", 20),
        *([Column("GROUP-EPOCH", 15), Column("TARGET-ASSIGNMENT-EPOCH", 25)] if verbose else []),
        Column("#MEMBERS", 0),
    ]
    epochs = (group.epoch, group.target_epoch) if verbose else ()
    row = (group.name, where, group.assignor or MISSING, group.state, *epochs, len(group.members))
    _print(columns, [row])


def list_groups(admin: Admin, given: Mapping[str, Any]) -> None:
    states = _filter_values(given["state"], STATES, "state")
    types = _filter_values(given["type"], TYPES, "type")
    listed = all_groups(admin, states, types)
    if states is None and types is None:
        for group in listed:
            click.echo(group.group_id)
        return
    width = max([15, *(len(group.group_id) for group in listed)]) + 10
    heads = ["GROUP", *(["TYPE"] if types is not None else []), *(["STATE"] if states is not None else [])]
    columns = [Column(heads[0], width), *(Column(head, 20) for head in heads[1:])]
    for line in table_lines(columns, (_row(group, heads) for group in listed)):
        click.echo(line)


def _row(group: Any, heads: list[str]) -> list[str]:
    kind = group.group_type or "classic"
    cells = {"GROUP": group.group_id, "TYPE": TYPES.get(kind.lower(), kind), "STATE": group.group_state or "Unknown"}
    return [cells[head] for head in heads]


def _filter_values(text: str | None, known: Mapping[str, str], what: str) -> list[str] | None:
    """The values of a filter in Kafka's spelling; [] selects all, None if the option is not given."""
    if text is None:
        return None
    values = [value.strip() for value in text.split(",") if value.strip()]
    for value in values:
        if value.lower() not in known:
            raise usage_error(f"--{what}: {value!r} is not valid; expected one of {', '.join(known.values())}.")
    return [known[value.lower()] for value in values]
