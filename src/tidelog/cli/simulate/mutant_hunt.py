"""`tidelog simulate --mutants`: which seed finds which mutant out, and by which invariant."""

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from tidelog.cli.formatting import Column, lines
from tidelog.cli.long_running import progress
from tidelog.cli.simulate.process_pool import ordered

if TYPE_CHECKING:
    from tidelog.sim.mutants.hunt import Verdict

COLUMNS = (
    Column("MUTANT", 36),
    Column("KILLED BY", 9, grows=True),
    Column("SEED", 5),
    Column("TRIED", 5),
    Column("SECONDS", 0),
)


def run_mutants(names: Sequence[str], first: int, seeds: int, workers: int) -> int:
    """The exit code: 1 where a mutant survived."""
    from tidelog.sim.mutants.catalogue import named

    try:
        wanted = named(names)
    except LookupError as error:
        raise click.UsageError(str(error)) from error
    able = [mutant.name for mutant in wanted]
    verdicts: list[tuple[Verdict, float]] = []
    with progress() as show:
        for verdict, seconds in ordered(partial(_hunt, first, seeds), iter(able), workers):
            verdicts.append((verdict, seconds))
            show(f"{len(verdicts)} of {len(able)} mutants")
    for line in lines(COLUMNS, [_row(verdict, seconds) for verdict, seconds in verdicts]):
        click.echo(line.rstrip())
    killed = sum(verdict.killed for verdict, _ in verdicts)
    click.echo(f"mutants: killed {killed} of {len(verdicts)} {'ok' if killed == len(verdicts) else 'FAILED'}")
    return 0 if killed == len(verdicts) else 1


def _hunt(first: int, seeds: int, name: str) -> "tuple[Verdict, float]":
    from tidelog.sim.mutants.catalogue import find
    from tidelog.sim.mutants.hunt import hunt

    begun = time.monotonic()
    verdict = hunt(find(name), range(first, first + seeds))
    return verdict, time.monotonic() - begun


def _row(verdict: "Verdict", seconds: float) -> tuple[object, ...]:
    outcome = verdict.outcome
    killer = "survived" if outcome is None else outcome.invariant
    return verdict.mutant.name, killer, outcome and outcome.plan.seed, verdict.tried, f"{seconds:.1f}"
