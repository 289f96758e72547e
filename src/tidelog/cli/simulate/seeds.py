"""Many seeds, and what they came to together."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tidelog.cli.simulate.failing import tell
from tidelog.cli.simulate.pool import ordered
from tidelog.cli.simulate.watching import progress

if TYPE_CHECKING:
    from tidelog.sim.outcome import Summary
    from tidelog.sim.plan import Plan

TOLD_WHOLE = 3
"""So many failures are told with their transcript; the others by one line each."""


def run_many(plans: "Iterator[Plan]", workers: int, minutes: float | None) -> int:
    """The exit code: 1 where an invariant broke."""
    from tidelog.sim import run
    from tidelog.sim.outcome import Summary

    summary, begun = Summary(), time.monotonic()
    deadline = begun + minutes * 60 if minutes is not None else None
    with progress() as show:
        for outcome in ordered(run.run, plans, workers, deadline):
            summary.add(outcome)
            seconds = time.monotonic() - begun
            show(f"{summary.seeds} seeds, {len(summary.failures)} broken, {summary.seeds / seconds:.1f} a second")
            if not outcome.ok:
                click.echo(f"seed {outcome.plan.seed} broke {outcome.broken}", err=True)
    for outcome in summary.failures[:TOLD_WHOLE]:
        tell(outcome)
    for outcome in summary.failures[TOLD_WHOLE:]:
        click.echo(f"{outcome.plan.command()}: {outcome.broken}")
    _conclude(summary, time.monotonic() - begun)
    return 1 if summary.failures else 0


def _conclude(summary: "Summary", seconds: float) -> None:
    from tidelog.sim.coverage import never, states

    click.echo(
        f"simulate: seeds {summary.seeds}, {summary.seconds / 3600:.1f} simulated hours in {seconds:.0f} s "
        f"({summary.seconds / max(seconds, 0.001):.0f} a second), steps {summary.steps}, records acknowledged "
        f"{summary.acked}, partitions allowed to lose {summary.lossy}"
    )
    click.echo(f"faults: {_counted(summary.faults)}")
    click.echo(f"states: {_counted({name: count for name, count in states(summary.counts).items() if count})}")
    missing = never(summary.counts)
    if missing:
        click.echo(f"never happened: {', '.join(missing)}")
    click.echo(f"broken {len(summary.failures)} {'FAILED' if summary.failures else 'ok'}")


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())) or "none"
