"""A pipeline's progress on stderr: on a terminal a table that is redrawn, in a pipe a line for each batch."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tidelog.spark.pipelines.running import Report, Tell

COLUMNS = ("stage", "batch", "rows", "rows/s", "lag")


@contextmanager
def progress() -> "Iterator[Tell]":
    """`tell(report)` for as long as the context lasts."""
    if not sys.stderr.isatty():
        yield _print
        return
    from rich.console import Console
    from rich.live import Live

    reports: dict[str, Report] = {}
    with Live(console=Console(stderr=True), refresh_per_second=4) as live:

        def tell(report: "Report") -> None:
            reports[report.stage] = report
            live.update(_drawn(reports))

        yield tell


def cells(report: "Report") -> tuple[str, ...]:
    standing = report.standing
    lag = "" if standing.lag is None else f"{standing.lag:,}"
    batch = "" if standing.batch < 0 else str(standing.batch)
    return report.stage, batch, f"{standing.rows:,}", f"{standing.rate:,.0f}", lag


def _drawn(reports: "dict[str, Report]") -> Any:
    from rich.table import Table

    table = Table()
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "stage" else "right")
    for report in reports.values():
        table.add_row(*cells(report))
    return table


def _print(report: "Report") -> None:
    if report.is_new:
        stage, batch, rows, rate, lag = cells(report)
        behind = f", lag {lag}" if lag else ""
        click.echo(f"{stage}: batch {batch}, {rows} rows, {rate} rows/s{behind}", err=True)
