"""Runs seeds of simulated metadata quorums, and searches for seeds that detect the quorum's mutants."""

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from tidelog.cli.simulate.process_pool import run_in_order

if TYPE_CHECKING:
    from tidelog.sim.quorum.run import Outcome


def run_quorum(seed: int, *, transcript: bool) -> int:
    """Run one seed and print its outcome; the exit code is 1 if an invariant was violated."""
    outcome = _run(seed)
    for line in outcome.history if transcript else ():
        click.echo(line)
    click.echo(outcome.violation or f"ok: {outcome.committed} records committed, {outcome.elections} elections")
    return 0 if outcome.ok else 1


def run_quorums(seeds: Iterator[int], workers: int, minutes: float | None) -> int:
    """Run the seeds and print a summary; the exit code is 1 if an invariant was violated."""
    deadline = time.monotonic() + minutes * 60 if minutes is not None else None
    count = failed = committed = elections = slowest = 0
    for outcome in run_in_order(_run, seeds, workers, deadline):
        count += 1
        committed += outcome.committed
        elections += outcome.elections
        slowest = max(slowest, outcome.leader_after)
        if not outcome.ok:
            failed += 1
            click.echo(f"seed {outcome.seed} broke {outcome.violation}", err=True)
    click.echo(f"{count} seeds, {failed} failed; {committed} records committed, {elections} elections")
    click.echo(f"slowest election after all faults ended: {slowest / 1e6:.1f} s")
    return 1 if failed else 0


def run_quorum_mutants(names: tuple[str, ...], seeds: Iterable[int]) -> int:
    """Print the first seed that detects each mutant; the exit code is 1 if one survives."""
    from tidelog.sim.quorum.mutants import MUTANTS, applied

    wanted, survived = tuple(seeds), 0
    for name in names or MUTANTS:
        if name not in MUTANTS:
            raise click.UsageError(f"Unknown mutant {name!r}; expected one of {', '.join(MUTANTS)}.")
        with applied(name):
            found = next((outcome for outcome in map(_run, wanted) if not outcome.ok), None)
        survived += found is None
        click.echo(f"{name}: " + (f"seed {found.seed}, {found.violation}" if found else "survived"))
    return 1 if survived else 0


def _run(seed: int) -> "Outcome":
    from tidelog.sim.quorum.run import run_seed

    return run_seed(seed)
