"""Printing findings as text or JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from tidelog.explain.core.commands import CommandLine, sentence
from tidelog.explain.core.finding import ORDER, Finding

COLOURS = {"error": "red", "warning": "yellow", "note": "blue"}


def print_findings(
    findings: Sequence[Finding], about: str, complete: CommandLine, *, as_json: bool, unanswered: Sequence[str] = ()
) -> None:
    """Print findings, most severe first. click removes colours in a pipe."""
    ordered = sorted(findings, key=lambda finding: ORDER[finding.severity])
    if as_json:
        found = [_fields(finding, complete) for finding in ordered]
        click.echo(json.dumps({"about": about, "findings": found, "unanswered": list(unanswered)}, indent=2))
        return
    if not ordered:
        click.echo(f"{about}: no problems found.")
    for finding in ordered:
        label = click.style(finding.severity, fg=COLOURS[finding.severity], bold=True)
        click.echo(f"{label} {finding.about}: {finding.says}")
        for fact in finding.because:
            click.echo(f"    {fact}")
        for advice in finding.helps:
            click.echo(f"    -> {sentence(advice, complete)}")
    for text in unanswered:
        click.echo(f"not known: {text}")


def _fields(finding: Finding, complete: CommandLine) -> Mapping[str, Any]:
    return {
        "severity": finding.severity,
        "kind": finding.kind,
        "about": finding.about,
        "says": finding.says,
        "because": list(finding.because),
        "helps": [sentence(advice, complete) for advice in finding.helps],
    }
