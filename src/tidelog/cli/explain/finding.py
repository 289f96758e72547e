"""The findings of rules, and printing them as text or JSON."""

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import click

Severity = Literal["error", "warning", "note"]
ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}

CommandLine = Callable[[str], str]
"""Makes the whole command line of a command: `topics --list` → `tidelog topics --bootstrap-server … --list`."""

COLOURS = {"error": "red", "warning": "yellow", "note": "blue"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: `says` is what is wrong, `because` its causes, `helps` remedies, each a sentence.

    `kind` is a stable dotted name for programs that read the JSON.
    """

    severity: Severity
    kind: str
    about: str
    says: str
    because: Sequence[str] = ()
    helps: Sequence[str] = ()


def broker_list(brokers: Sequence[int]) -> str:
    """`broker 1`, `brokers 1 and 2`, `brokers 1, 2 and 3`."""
    names = [str(broker) for broker in brokers]
    if len(names) < 2:
        return f"broker {''.join(names)}"
    return f"brokers {', '.join(names[:-1])} and {names[-1]}"


def size(count: float) -> str:
    """A size in bytes with a unit: `1.5 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(ms: float) -> str:
    """A duration with a unit: `450 ms`, `12 s`, `3 min`, `2.5 h`, `4 days`."""
    for limit, unit, name in ((1000, 1, "ms"), (120_000, 1000, "s"), (7_200_000, 60_000, "min")):
        if ms < limit:
            return f"{ms / unit:.0f} {name}"
    return f"{ms / 3_600_000:.1f} h" if ms < 172_800_000 else f"{ms / 86_400_000:.0f} days"


def command_line(bootstrap: str, command_config: str | None = None) -> CommandLine:
    """A function that completes commands for this cluster."""
    options = f"--bootstrap-server {bootstrap}"
    if command_config is not None:
        options += f" --command-config {shlex.quote(command_config)}"

    def spelled(text: str) -> str:
        command, _, rest = text.partition(" ")
        return f"tidelog {command} {options} {rest}".rstrip()

    return spelled


def print_findings(findings: Sequence[Finding], about: str, *, as_json: bool) -> None:
    """Print findings, most severe first. click removes colours in a pipe."""
    ordered = sorted(findings, key=lambda finding: ORDER[finding.severity])
    if as_json:
        click.echo(json.dumps({"about": about, "findings": [asdict(finding) for finding in ordered]}, indent=2))
        return
    if not ordered:
        click.echo(f"{about}: no problems found.")
    for finding in ordered:
        label = click.style(finding.severity, fg=COLOURS[finding.severity], bold=True)
        click.echo(f"{label} {finding.about}: {finding.says}")
        for fact in finding.because:
            click.echo(f"    {fact}")
        for help_ in finding.helps:
            click.echo(f"    -> {help_}")
