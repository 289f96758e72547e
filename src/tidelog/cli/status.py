"""The flags of `tidelog status`."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.formatting import MISSING, Column, table_lines
from tidelog.cli.options import cluster_options, flag, usage_error
from tidelog.cli.replica_positions import ReplicaState

if TYPE_CHECKING:
    from rich.table import Table

TIMEOUT_MS = 5_000

COLUMNS = (
    Column("TOPIC", 15, grows=True),
    Column("PARTITION", 9),
    Column("LEADER", 6),
    Column("EPOCH", 5, grows=True),
    Column("ISR", 8, grows=True),
    Column("REPLICA", 7),
    Column("STATE", 7),
    Column("LEO", 10, grows=True),
    Column("HW", 10, grows=True),
    Column("LAG", 0),
)

COLOURS = {"leader": "bold", "in sync": "", "behind": "yellow", "silent": "red"}
QueryReplicas = Callable[[], list[ReplicaState] | None]
"""Asks for the replicas; None where no broker answers."""


@click.command()
@cluster_options
@click.option(
    "--topic", help="Topics whose whole name this regular expression matches; all but internal ones by default."
)
@flag("watch", "Go on: redraw on a terminal, print what changed in a pipe.")
@click.option(
    "--interval-ms", type=click.IntRange(10), default=500, show_default=True, help="How often --watch looks again."
)
def status(**given: Any) -> None:
    """Show leader, epoch and ISR of each partition, and of each replica its log end offset, high watermark and lag."""
    if given["topic"] is not None:
        try:
            re.compile(given["topic"])
        except re.error as error:
            raise usage_error(f"--topic {given['topic']!r} is no regular expression: {error}.") from None
    from tidelog.cli.admin_requests import connect
    from tidelog.cli.replica_positions import ReplicaState, replica_states
    from tidelog.errors import ApiError

    with connect(given["bootstrap_server"], given["command_config"], timeout_ms=TIMEOUT_MS) as admin:

        def query() -> list[ReplicaState] | None:
            try:
                return replica_states(admin, given["topic"])
            except ApiError:
                return None

        if not given["watch"]:
            print_table_once(replica_states(admin, given["topic"]))
        elif sys.stdout.isatty():
            redraw_table(query, given["interval_ms"] / 1000)
        else:
            print_changes(query, given["interval_ms"] / 1000)


def table_row(state: ReplicaState) -> tuple[object, ...]:
    return (
        *state.partition,
        state.leader if state.leader >= 0 else "none",
        state.epoch,
        ",".join(map(str, state.in_sync)) or MISSING,
        state.replica,
        state.state,
        state.log_end_offset,
        state.high_watermark,
        state.lag,
    )


def print_table_once(states: Sequence[ReplicaState]) -> None:
    for line in table_lines(COLUMNS, map(table_row, states)):
        click.echo(line)


def changed_states(before: Sequence[ReplicaState], after: Sequence[ReplicaState]) -> Iterator[ReplicaState]:
    """What is new or different, in the order of `after`."""
    known = set(before)
    return (state for state in after if state not in known)


def print_changes(query: QueryReplicas, interval_s: float) -> None:
    """Print the table, and from then on the rows that changed, with the time in front, until interrupted."""
    stamped = (Column("TIME", 12), *COLUMNS)
    before: list[ReplicaState] | None = []
    is_first = True
    while True:
        states = query()
        moment = time.strftime("%H:%M:%S") + f".{time.time_ns() // 1_000_000 % 1000:03d}"
        if states is None:
            if before is not None:
                click.echo(f"{moment} no broker answers", err=True)
        else:
            rows = [(moment, *table_row(state)) for state in changed_states(before or (), states)]
            for line in table_lines(stamped, rows)[0 if is_first else 1 :]:
                click.echo(line)
            is_first = False
        before = states
        time.sleep(interval_s)


def redraw_table(query: QueryReplicas, interval_s: float) -> None:
    """Redraw the table on the terminal until interrupted; it stays as it is while no broker answers."""
    from rich.live import Live

    states = query() or []
    with Live(rich_table(states), auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(interval_s)
            found = query()
            states = states if found is None else found
            live.update(rich_table(states, silent=found is None), refresh=True)


def rich_table(states: Sequence[ReplicaState], *, silent: bool = False) -> "Table":
    """The same table for rich; a partition's own columns stand in its first row only."""
    from rich.table import Table

    title = time.strftime("No broker answers at %H:%M:%S" if silent else "Replicas at %H:%M:%S")
    drawn = Table(title=title, expand=False)
    for column in COLUMNS:
        drawn.add_column(column.title, justify="right" if column.title in ("LEO", "HW", "LAG") else "left")
    last = None
    for state in states:
        cells = [MISSING if cell is None else str(cell) for cell in table_row(state)]
        if state.partition == last:
            cells[:5] = [""] * 5
        last = state.partition
        drawn.add_row(*cells, style=COLOURS[state.state])
    return drawn
