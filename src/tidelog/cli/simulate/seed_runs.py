"""Runs seeds: many with a summary, or one with its outcome, its transcript, or a smaller run that fails alike."""

import time
from collections.abc import Iterator, Sequence
from statistics import mean, median
from typing import TYPE_CHECKING

import click

from tidelog.cli.long_running import Show, progress_line, sigterm_as_interrupt
from tidelog.cli.simulate.process_pool import run_in_order

if TYPE_CHECKING:
    from tidelog.sim.cluster import Cluster
    from tidelog.sim.outcome import Outcome, Summary
    from tidelog.sim.plan import Plan
    from tidelog.sim.trace import TraceEntry

INTERRUPTED = 130
MAX_TRANSCRIPTS = 3
"""The number of failures printed with a transcript; the others get a line each."""

WIDTH = 300
TRANSCRIPT_LINES = 60
"""How many of the last lines of the transcript are printed with a failure."""

PROCESSOR_TIME = "I49"
"""The invariant on processor time, which is not deterministic."""

SHOWN_BY_MESSAGES = frozenset(
    {"Send", "receive", "Sync", "synced", "Close", "wake", "Store", "Connect", "connected", "answer"}
)
"""Entries that a readable transcript omits, because the lines of messages and of the store show the same better."""


def run_many(plans: "Iterator[Plan]", workers: int, minutes: float | None) -> int:
    """Run the plans and print a summary, also when interrupted.

    Returns the exit code: 1 if an invariant was violated, else 130 if interrupted, else 0.
    """
    from tidelog.sim.outcome import Summary

    summary, started_at = Summary(), time.monotonic()
    deadline = started_at + minutes * 60 if minutes is not None else None
    is_complete = True
    try:
        with sigterm_as_interrupt(), progress_line() as show:
            for outcome, cpu in run_in_order(_timed, plans, workers, deadline):
                _add_outcome(summary, outcome, cpu)
                show(lambda: _progress(summary, time.monotonic() - started_at))
    except KeyboardInterrupt:
        is_complete = False
        click.echo("interrupted; results so far:", err=True)
    else:
        _print_failures(summary)
    _print_summary(summary, time.monotonic() - started_at)
    return 1 if summary.failures else 0 if is_complete else INTERRUPTED


def _timed(plan: "Plan") -> "tuple[Outcome, float]":
    """The outcome of a run, and its processor time in seconds."""
    from tidelog.sim import run

    started_at = time.process_time()
    outcome = run.run_timed(plan)
    return outcome, time.process_time() - started_at


def _add_outcome(summary: "Summary", outcome: "Outcome", cpu: float) -> None:
    summary.add(outcome)
    summary.cpu.append(cpu)
    if not outcome.ok:
        click.echo(f"seed {outcome.plan.seed} broke {outcome.broken}", err=True)


def _progress(summary: "Summary", seconds: float) -> str:
    pace = summary.seeds / max(seconds, 0.001)
    cpu = sum(summary.cpu) / len(summary.cpu)
    return f"seeds {summary.seeds}, failed {len(summary.failures)}, {pace:.1f} per second, {cpu:.2f} s of CPU time each"


def _print_failures(summary: "Summary") -> None:
    for outcome in summary.failures[:MAX_TRANSCRIPTS]:
        print_failure(outcome)
    for outcome in summary.failures[MAX_TRANSCRIPTS:]:
        click.echo(f"{outcome.plan.command()}: {outcome.broken}")


def _print_summary(summary: "Summary", seconds: float) -> None:
    from tidelog.sim.coverage import never, states

    click.echo(
        f"simulate: seeds {summary.seeds}, {summary.seconds / 3600:.1f} simulated hours in {seconds:.0f} s "
        f"({summary.seconds / max(seconds, 0.001):.0f} s per second), steps {summary.steps}, acknowledged records "
        f"{summary.acked}, partitions allowed to lose records {summary.lossy}"
    )
    if summary.cpu:
        pace = summary.seconds / max(sum(summary.cpu), 0.001)
        click.echo(
            f"CPU seconds per seed: median {median(summary.cpu):.2f}, mean {mean(summary.cpu):.2f}, "
            f"maximum {max(summary.cpu):.2f}; {pace:.0f} simulated seconds per CPU second; "
            f"most expensive input: {summary.dearest}"
        )
    click.echo(f"faults: {sum(summary.faults.values())}: {_counted(summary.faults)}")
    click.echo(f"states: {_counted({name: count for name, count in states(summary.counts).items() if count})}")
    missing = never(summary.counts)
    if missing:
        click.echo(f"never reached: {', '.join(missing)}")
    click.echo(f"broken {len(summary.failures)} {'FAILED' if summary.failures else 'ok'}")


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())) or "none"


def run_one(plan: "Plan", *, transcript: bool, listen: bool, shrink: bool) -> int:
    """Run one seed and print its outcome; returns the exit code, 1 if an invariant was violated."""
    from tidelog.sim import run

    outcome, entries = replay(plan, listen=listen)
    if outcome.ok and outcome.slow:
        outcome = run.run_timed(plan)
    if listen or transcript:
        for line in readable(entries) if listen else map(str, entries):
            click.echo(line)
    if outcome.ok:
        click.echo(f"seed {plan.seed}: {outcome.steps} steps, {outcome.seconds:.0f} simulated seconds, ok")
        click.echo(f"digest: {outcome.digest}")
        click.echo(f"faults: {faults(outcome)}")
        return 0
    if shrink:
        with progress_line() as show:
            outcome = shrink_failure(outcome, show)
    print_failure(outcome)
    return 1


def replay(plan: "Plan", *, listen: bool) -> tuple["Outcome", "list[TraceEntry]"]:
    """Run the plan and record the whole transcript; with `listen`, also every message in readable form."""
    from tidelog.sim.run import run
    from tidelog.sim.trace import Trace

    trace = Trace()
    trace.keep_all()

    def prepared(cluster: "Cluster") -> None:
        cluster.world.trace = trace
        if listen:
            cluster.world.listen_in()

    return run(plan, prepared), trace.entries


def readable(entries: "Sequence[TraceEntry]") -> list[str]:
    """A line for each entry, cut to a maximum width."""
    return [str(entry)[:WIDTH] for entry in entries if entry.what not in SHOWN_BY_MESSAGES]


def print_failure(outcome: "Outcome", last: int | None = TRANSCRIPT_LINES) -> None:
    """Run the failed plan again and print the end of its transcript, its faults, and the command that repeats it."""
    repeated, entries = replay(outcome.plan, listen=True)
    lines = readable(entries)
    click.echo(f"seed {outcome.plan.seed}: {outcome.broken}")
    for line in lines[-last:] if last else lines:
        click.echo(line)
    if repeated.broken != outcome.broken and outcome.invariant != PROCESSOR_TIME:
        click.echo(f"seed {outcome.plan.seed} is not reproducible; the second run: {repeated.broken or 'no violation'}")
    click.echo(f"step {outcome.steps}: {outcome.broken}")
    click.echo(f"faults: {faults(outcome)}")
    click.echo(f"repeat: {outcome.plan.command()}")


def faults(outcome: "Outcome") -> str:
    return ", ".join(f"{number} {kind}" for number, kind in outcome.struck.items()) or "none"


def shrink_failure(outcome: "Outcome", show: Show) -> "Outcome":
    from tidelog.sim.run import run
    from tidelog.sim.shrink import shrink

    def tried(smallest: "Outcome", attempts: int) -> None:
        plan = smallest.plan
        show(lambda: f"{attempts} attempts: {len(smallest.struck)} faults, {plan.seconds:g} s, {smallest.steps} steps")

    return shrink(outcome, run, tried)
