"""Many seeds, and what they came to together."""

import time
from collections.abc import Iterator
from statistics import mean, median
from typing import TYPE_CHECKING

import click

from tidelog.cli.interrupting import terminated_as_interrupted
from tidelog.cli.simulate.failing import tell
from tidelog.cli.simulate.pool import ordered
from tidelog.cli.simulate.watching import progress

if TYPE_CHECKING:
    from tidelog.sim.outcome import Outcome, Summary
    from tidelog.sim.plan import Plan

INTERRUPTED = 130
TOLD_WHOLE = 3
"""So many failures are told with their transcript; the others by one line each."""


def run_many(plans: "Iterator[Plan]", workers: int, minutes: float | None) -> int:
    """The exit code: 1 where an invariant broke, else 130 where it was interrupted. Interrupted, it sums up what there
    is by then."""
    from tidelog.sim.outcome import Summary

    summary, begun = Summary(), time.monotonic()
    deadline = begun + minutes * 60 if minutes is not None else None
    is_whole = True
    try:
        with terminated_as_interrupted(), progress() as show:
            for outcome, cpu in ordered(_timed, plans, workers, deadline):
                _take(summary, outcome, cpu)
                show(_progress(summary, time.monotonic() - begun))
    except KeyboardInterrupt:
        is_whole = False
        click.echo("interrupted: what there is by now", err=True)
    else:
        _tell_failures(summary)
    _conclude(summary, time.monotonic() - begun)
    return 1 if summary.failures else 0 if is_whole else INTERRUPTED


def _timed(plan: "Plan") -> "tuple[Outcome, float]":
    """A run, and the processor seconds that it took."""
    from tidelog.sim import run

    begun = time.process_time()
    outcome = run.run_timed(plan)
    return outcome, time.process_time() - begun


def _take(summary: "Summary", outcome: "Outcome", cpu: float) -> None:
    summary.add(outcome)
    summary.cpu.append(cpu)
    if not outcome.ok:
        click.echo(f"seed {outcome.plan.seed} broke {outcome.broken}", err=True)


def _progress(summary: "Summary", seconds: float) -> str:
    pace = summary.seeds / max(seconds, 0.001)
    cpu = sum(summary.cpu) / len(summary.cpu)
    return (
        f"{summary.seeds} seeds, {len(summary.failures)} broken, {pace:.1f} a second, {cpu:.2f} s of a processor each"
    )


def _tell_failures(summary: "Summary") -> None:
    for outcome in summary.failures[:TOLD_WHOLE]:
        tell(outcome)
    for outcome in summary.failures[TOLD_WHOLE:]:
        click.echo(f"{outcome.plan.command()}: {outcome.broken}")


def _conclude(summary: "Summary", seconds: float) -> None:
    from tidelog.sim.coverage import never, states

    click.echo(
        f"simulate: seeds {summary.seeds}, {summary.seconds / 3600:.1f} simulated hours in {seconds:.0f} s "
        f"({summary.seconds / max(seconds, 0.001):.0f} a second), steps {summary.steps}, records acknowledged "
        f"{summary.acked}, partitions allowed to lose {summary.lossy}"
    )
    if summary.cpu:
        pace = summary.seconds / max(sum(summary.cpu), 0.001)
        click.echo(
            f"processor seconds of a seed: median {median(summary.cpu):.2f}, mean {mean(summary.cpu):.2f}, "
            f"most {max(summary.cpu):.2f}; {pace:.0f} simulated seconds a second; of an input at most {summary.dearest}"
        )
    click.echo(f"faults: {sum(summary.faults.values())}: {_counted(summary.faults)}")
    click.echo(f"states: {_counted({name: count for name, count in states(summary.counts).items() if count})}")
    missing = never(summary.counts)
    if missing:
        click.echo(f"never happened: {', '.join(missing)}")
    click.echo(f"broken {len(summary.failures)} {'FAILED' if summary.failures else 'ok'}")


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())) or "none"
