"""Findings as text and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict

import click

from tidelog.cli.explain.finding import ORDER, Finding

COLOURS = {"error": "red", "warning": "yellow", "note": "blue"}


def print_findings(findings: Sequence[Finding], about: str, *, as_json: bool) -> None:
    """The gravest first. Colours are click's: none in a pipe."""
    ordered = sorted(findings, key=lambda finding: ORDER[finding.severity])
    if as_json:
        click.echo(json.dumps({"about": about, "findings": [asdict(finding) for finding in ordered]}, indent=2))
        return
    if not ordered:
        click.echo(f"{about}: all is well.")
    for finding in ordered:
        label = click.style(finding.severity, fg=COLOURS[finding.severity], bold=True)
        click.echo(f"{label} {finding.about}: {finding.says}")
        for fact in finding.because:
            click.echo(f"    {fact}")
        for help_ in finding.helps:
            click.echo(f"    -> {help_}")
