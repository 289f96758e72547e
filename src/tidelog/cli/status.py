"""`tidelog status`: prints the state of every replica, once or continuously."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.formatting import MISSING, Column, table_lines
from tidelog.cli.options import cluster_options, flag, usage_error
from tidelog.cli.replica_states import ReplicaState

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
"""Queries the state of the replicas; returns None if no broker answers."""


@click.command()
@cluster_options
@click.option("--topic", help="Regular expression for topic names (default: all but internal topics).")
@flag("watch", "Keep running: redraw on a terminal, print changes in a pipe.")
@click.option(
    "--interval-ms",
    type=click.IntRange(10),
    default=500,
    show_default=True,
    help="Interval of --watch, in milliseconds.",
)
def status(**given: Any) -> None:
    """Show each replica's log end offset, high watermark and lag, and each partition's leader, epoch and ISR."""
    if given["topic"] is not None:
        try:
            re.compile(given["topic"])
        except re.error as error:
            raise usage_error(f"--topic: {given['topic']!r} is not a valid regular expression: {error}.") from None
    from tidelog.cli.admin_requests import connect
    from tidelog.cli.replica_states import ReplicaState, replica_states
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
    """The states that are new or different, in the order of `after`."""
    known = set(before)
    return (state for state in after if state not in known)


def print_changes(query: QueryReplicas, interval_s: float) -> None:
    """Print the table, then the rows that change, preceded by the time, until interrupted."""
    stamped = (Column("TIME", 12), *COLUMNS)
    before: list[ReplicaState] | None = []
    is_first = True
    while True:
        states = query()
        timestamp = time.strftime("%H:%M:%S") + f".{time.time_ns() // 1_000_000 % 1000:03d}"
        if states is None:
            if before is not None:
                click.echo(f"{timestamp} no broker answers", err=True)
        else:
            rows = [(timestamp, *table_row(state)) for state in changed_states(before or (), states)]
            for line in table_lines(stamped, rows)[0 if is_first else 1 :]:
                click.echo(line)
            is_first = False
        before = states
        time.sleep(interval_s)


def redraw_table(query: QueryReplicas, interval_s: float) -> None:
    """Redraw the table on the terminal until interrupted; the last states stay while no broker answers."""
    from rich.live import Live

    states = query() or []
    with Live(rich_table(states), auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(interval_s)
            found = query()
            states = states if found is None else found
            live.update(rich_table(states, silent=found is None), refresh=True)


def rich_table(states: Sequence[ReplicaState], *, silent: bool = False) -> "Table":
    """The table for rich; the columns of a partition are filled only in its first row."""
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
