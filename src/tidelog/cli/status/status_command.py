"""`tidelog status`: prints the state of every replica, once or continuously."""

import json
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

    from tidelog.cli.status.status_screen import Screen, View
    from tidelog.cli.status.status_views import Queries

TIMEOUT_MS = 5_000

COLUMNS = (
    Column("TOPIC", 15, grows=True),
    Column("PARTITION", 9),
    Column("LEADER", 6),
    Column("EPOCH", 5, grows=True),
    Column("ISR", 8, grows=True),
    Column("REPLICA", 7),
    Column("STATE", 7, grows=True),
    Column("LEO", 10, grows=True),
    Column("HW", 10, grows=True),
    Column("LAG", 0),
)

COLOURS = {"leader": "bold", "in sync": "", "eligible": "yellow", "behind": "yellow", "silent": "red"}
QueryReplicas = Callable[[], list[ReplicaState] | None]
"""Queries the state of the replicas; returns None if no broker answers."""


@click.command()
@cluster_options
@click.option("--topic", help="Regular expression for topic names (default: all but internal topics).")
@flag("internal", "Include internal topics.")
@click.option(
    "--view",
    type=click.Choice(["replicas", "groups", "throughput"]),
    default="replicas",
    show_default=True,
    help="What to show: each replica, the lag of each group, or the records per second of each topic.",
)
@flag("json", "Print JSON.")
@flag("watch", "Keep running: redraw on a terminal (keys: q / s r v arrows), print changes in a pipe.")
@click.option(
    "--interval-ms",
    type=click.IntRange(10),
    default=500,
    show_default=True,
    help="Interval of --watch and of --view throughput, in milliseconds.",
)
def status(**given: Any) -> None:
    """Show each replica's log end offset, high watermark and lag, and each partition's leader, epoch and ISR."""
    _check(given)
    from tidelog.cli.admin_requests import connect
    from tidelog.cli.status.status_views import Queries
    from tidelog.errors import ApiError

    with connect(given["bootstrap_server"], given["command_config"], timeout_ms=TIMEOUT_MS) as admin:
        queries = Queries(admin, given["topic"], given["interval_ms"] / 1000, internal=given["internal"])
        if not given["watch"]:
            queries.check_topic()
            print_view(queries.view(given["view"]), as_json=given["json"])
        elif sys.stdout.isatty() and sys.stdin.isatty():
            redraw(queries, given["view"], given["interval_ms"] / 1000)
        else:

            def query() -> list[ReplicaState] | None:
                try:
                    return queries.replicas()
                except ApiError:
                    return None

            print_changes(query, given["interval_ms"] / 1000)


def _check(given: dict[str, Any]) -> None:
    if given["topic"] is not None:
        try:
            re.compile(given["topic"])
        except re.error as error:
            raise usage_error(f"--topic: {given['topic']!r} is not a valid regular expression: {error}.") from None
    if given["watch"] and given["json"]:
        raise usage_error("--json and --watch cannot be used together.")
    if given["watch"] and given["view"] != "replicas" and not sys.stdout.isatty():
        raise usage_error("--watch prints replicas only, unless stdout is a terminal.")


def print_view(view: "View", *, as_json: bool) -> None:
    if as_json:
        names = [title.lower().replace("/", "_per_") for title in view.columns]
        rows = [dict(zip(names, row, strict=True)) for row in view.rows]
        click.echo(json.dumps({"view": view.name, "rows": rows}, indent=2))
        return
    columns: Sequence[Column] = COLUMNS
    if view.name != "replicas":
        columns = tuple(Column(title, len(title), grows=True) for title in view.columns)
    for line in table_lines(columns, view.rows):
        click.echo(line.rstrip() if view.name != "replicas" else line)


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


def rich_table(states: Sequence[ReplicaState]) -> "Table":
    """All these replicas for rich, without keys."""
    from tidelog.cli.status.status_screen import Screen
    from tidelog.cli.status.status_views import replica_view

    table = drawn(replica_view(states), Screen(("replicas",), height=len(states)))
    table.caption = None
    return table


def redraw(queries: "Queries", first: str, interval_s: float) -> None:
    """Redraw the table on the terminal, and obey keys, until `q`; the last rows stay while no broker answers."""
    from rich.live import Live

    from tidelog.cli.status.status_screen import Screen, split_keys
    from tidelog.cli.status.status_views import VIEWS, Keyboard
    from tidelog.errors import ApiError

    screen = Screen(VIEWS, view=VIEWS.index(first))
    view = queries.view(first)
    silent, due = False, time.monotonic() + interval_s
    with Keyboard() as keyboard, Live(auto_refresh=False, screen=True) as live:
        while not screen.quits:
            screen.height = max(1, live.console.height - 6)
            live.update(drawn(view, screen, silent=silent), refresh=True)
            for key in split_keys(keyboard.read(max(0.0, due - time.monotonic()))):
                screen.press(key, len(view.columns))
            if time.monotonic() < due and view.name == screen.name:
                continue
            due = time.monotonic() + interval_s
            try:
                view, silent = queries.view(screen.name), False
            except ApiError:
                silent = True


def drawn(view: "View", screen: "Screen", *, silent: bool = False) -> "Table":
    """The part of the view that the screen shows; the columns of a partition are filled only in its first row."""
    from rich.table import Table

    title = time.strftime("No broker answers at %H:%M:%S" if silent else f"{view.name.capitalize()} at %H:%M:%S")
    rows = screen.rows(view)
    table = Table(title=title, caption=screen.footer(), expand=False)
    for number, column in enumerate(view.columns):
        mark = "" if screen.sort != number else " ↓" if screen.reverse else " ↑"
        table.add_column(f"{column}{mark}", justify="right" if number in view.numbers else "left")
    last = None
    for row in rows:
        cells = [MISSING if cell is None else str(cell) for cell in row]
        style = ""
        if view.name == "replicas":
            style = COLOURS.get(str(row[6]), "")
            if row[:2] == last and screen.sort is None:
                cells[:5] = [""] * 5
            last = row[:2]
        table.add_row(*cells, style=style)
    return table
