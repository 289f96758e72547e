"""`tidelog simulate --mutants`: runs seeds against the mutants of the catalogue; prints which seed and invariant kill
each.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from tidelog.cli.formatting import Column, table_lines
from tidelog.cli.long_running import progress_line
from tidelog.cli.simulate.process_pool import run_in_order

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
    """Hunt the mutants and print a table; returns the exit code, 1 if a mutant survived."""
    from tidelog.sim.mutants.catalogue import named

    try:
        wanted = named(names)
    except LookupError as error:
        raise click.UsageError(str(error)) from error
    mutant_names = [mutant.name for mutant in wanted]
    verdicts: list[tuple[Verdict, float]] = []
    with progress_line() as show:
        for verdict, seconds in run_in_order(partial(_hunt, first, seeds), iter(mutant_names), workers):
            verdicts.append((verdict, seconds))
            show(lambda: f"{len(verdicts)} of {len(mutant_names)} mutants")
    for line in table_lines(COLUMNS, [_row(verdict, seconds) for verdict, seconds in verdicts]):
        click.echo(line.rstrip())
    killed = sum(verdict.killed for verdict, _ in verdicts)
    click.echo(f"mutants: killed {killed} of {len(verdicts)} {'ok' if killed == len(verdicts) else 'FAILED'}")
    return 0 if killed == len(verdicts) else 1


def _hunt(first: int, seeds: int, name: str) -> "tuple[Verdict, float]":
    from tidelog.sim.mutants.catalogue import find
    from tidelog.sim.mutants.hunt import hunt

    started_at = time.monotonic()
    verdict = hunt(find(name), range(first, first + seeds))
    return verdict, time.monotonic() - started_at


def _row(verdict: "Verdict", seconds: float) -> tuple[object, ...]:
    outcome = verdict.outcome
    killer = "survived" if outcome is None else outcome.invariant
    return verdict.mutant.name, killer, outcome and outcome.plan.seed, verdict.tried, f"{seconds:.1f}"
