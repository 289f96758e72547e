"""A verdict on the terminal: a table of what was found, the evidence, the figures, one last line."""

import json
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.table import Column, lines

if TYPE_CHECKING:
    from tidelog.check.history.verdict import Verdict

MOST_SHOWN = 5
"""So many anomalies of a kind are told; the JSON has more."""


def tell(verdict: "Verdict", *, as_json: bool, extra: dict[str, Any] | None = None) -> None:
    if as_json:
        click.echo(json.dumps({**verdict.as_json(), **(extra or {})}, indent=2))
        return
    from tidelog.check.history.verdict import KINDS

    columns = [
        Column("ANOMALY", 8, grows=True),
        Column("FOUND", 5, grows=True),
        Column("VERDICT", 8),
        Column("MEANS", 0),
    ]
    rows = [
        (kind, len(found), "allowed" if KINDS[kind].is_allowed else "BROKEN", KINDS[kind].meaning)
        for kind, found in verdict.anomalies.items()
    ]
    if rows:
        click.echo("\n".join(lines(columns, rows)))
        click.echo()
    for kind, found in verdict.anomalies.items():
        if not KINDS[kind].is_allowed:
            for anomaly in found[:MOST_SHOWN]:
                click.echo(f"{kind}: {anomaly.text(verdict.header)}")
            if len(found) > MOST_SHOWN:
                click.echo(f"{kind}: {len(found) - MOST_SHOWN} more")
    click.echo(_summary(verdict))


def _summary(verdict: "Verdict") -> str:
    figures = verdict.figures
    counts = (
        f"values: {figures['values_certain']} certain, {figures['values_indeterminate']} indeterminate, "
        f"{figures['values_failed']} failed, {figures['values_read']} read; "
        f"{figures['processes']} processes, {figures['partitions']} partitions, {figures['scans']} final readings"
    )
    last = "ok" if verdict.is_good else "FAILED"
    return f"{counts}\nbroken {len(verdict.broken)} {last}"
