"""`tidelog simulate`: seeds of the simulated world, one after another or several at a time."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import count, islice
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tidelog.sim.run import Outcome, Summary

MOST_WORKERS = 64

Tell = Callable[["Summary", "Outcome", float], None]
"""Called after each seed with the summary so far, its outcome, and the seconds since the start."""


@click.command()
@click.option("--seeds", type=click.IntRange(1), help="How many seeds; 100 if --minutes is not given either.")
@click.option("--from", "first", type=click.IntRange(0), default=0, show_default=True, help="The first seed.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Stop after so many minutes.")
@click.option("--workers", type=click.IntRange(1, MOST_WORKERS), default=1, show_default=True, help="Processes.")
def simulate(seeds: int | None, first: int, minutes: float | None, workers: int) -> None:
    """Run clusters in the seeded world, break them, and check the invariants after every step.

    The same seed is the same run: `--from SEED --seeds 1` repeats one. The exit code is 1 where an invariant broke.
    """
    wanted = islice(count(first), seeds if seeds is not None or minutes is not None else 100)
    from tidelog.sim.run import Summary

    summary = Summary()
    begun = time.monotonic()
    deadline = begun + minutes * 60 if minutes is not None else None
    with _progress() as tell:
        for outcome in run(wanted, workers, deadline):
            summary.add(outcome)
            tell(summary, outcome, time.monotonic() - begun)
    _conclude(summary, time.monotonic() - begun)
    click.get_current_context().exit(1 if summary.failures else 0)


def run(seeds: Iterator[int], workers: int, deadline: float | None) -> "Iterator[Outcome]":
    """The outcome of each seed as it ends; none is begun after the deadline (monotonic seconds)."""
    from tidelog.sim.run import run_seed

    def due() -> Iterator[int]:
        for seed in seeds:
            if deadline is not None and time.monotonic() >= deadline:
                return
            yield seed

    if workers == 1:
        yield from map(run_seed, due())
        return
    left = due()
    with ProcessPoolExecutor(workers) as pool:
        running = [pool.submit(run_seed, seed) for seed in islice(left, workers)]
        while running:
            # In order of the seeds: two runs of the same command print the same.
            yield running.pop(0).result()
            running.extend(pool.submit(run_seed, seed) for seed in islice(left, 1))


@contextmanager
def _progress() -> Iterator[Tell]:
    """A line that is redrawn on a terminal; in a pipe a line for each seed that broke something."""
    from sys import stderr

    is_terminal = stderr.isatty()

    def tell(summary: "Summary", outcome: "Outcome", seconds: float) -> None:
        if not outcome.ok:
            click.echo(f"{chr(13) if is_terminal else ''}seed {outcome.seed} broke an invariant", err=True)
        if is_terminal:
            rate = summary.seeds / seconds if seconds else 0.0
            click.echo(f"\r{summary.seeds} seeds, {len(summary.failures)} broken, {rate:.1f}/s  ", err=True, nl=False)

    yield tell
    if is_terminal:
        click.echo("", err=True)


def _conclude(summary: "Summary", seconds: float) -> None:
    for outcome in summary.failures:
        click.echo(
            f"seed {outcome.seed} (digest {outcome.digest}, repeat: tidelog simulate --from {outcome.seed} --seeds 1)"
        )
        click.echo(outcome.violation)
    happened = ", ".join(f"{kind} {number}" for kind, number in sorted(summary.counts.items()))
    click.echo(
        f"simulate: seeds {summary.seeds} steps {summary.steps} acknowledged {summary.acked} "
        f"simulated {summary.seconds:.0f} s in {seconds:.0f} s"
    )
    if happened:
        click.echo(f"happened: {happened}")
    click.echo(f"broken {len(summary.failures)} {'ok' if not summary.failures else 'FAILED'}")
