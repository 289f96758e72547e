"""The options of `tidelog simulate`, and what of it they ask for."""

from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tidelog.sim.plan import Plan

SEEDS = 100
MUTANT_SEEDS = 2_000
DRAWN = "drawn"
DRAWN_MUTANTS, DRAWN_SEEDS = 200, 200
RESULTS_FOLDER = Path(".cache/mutants")
MAX_WORKERS = 64


class CommaList(click.ParamType):  # type: ignore[type-arg]
    """A comma-separated list, each item converted."""

    name = "a,b,…"

    def __init__(self, convert_item: Callable[[str], Any] = str) -> None:
        self._convert_item = convert_item

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(self._convert_item(word) for word in value.split(",") if word)
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers.", param, ctx)


@click.command()
@click.argument("names", nargs=-1, metavar="[MUTANT]...")
@click.option("--seeds", type=click.IntRange(1), help=f"How many; {SEEDS} if --minutes is not given either.")
@click.option("--from", "first", type=click.IntRange(0), default=0, show_default=True, help="The first seed.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Begin no seed after so many minutes.")
@click.option("--workers", type=click.IntRange(1, MAX_WORKERS), default=1, show_default=True, help="Processes.")
@click.option("--truncation", default="kip_320", show_default=True, help="How followers cut their logs.")
@click.option("--seed", type=click.IntRange(0), help="Run this one, and tell how it ends; or what draws mutants.")
@click.option("--transcript", is_flag=True, help="With --seed: print everything that happens.")
@click.option("--listen", is_flag=True, help="With --seed: print it with every message.")
@click.option("--shrink", is_flag=True, help="With --seed: look for a smaller run that fails in the same way.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), default=30.0, help="Simulated seconds with faults.")
@click.option("--kinds", type=CommaList(), help="Only these kinds of faults, for the seed's own.")
@click.option("--only", type=CommaList(int), help="With --seed: only the faults with these numbers.")
@click.option("--without", type=CommaList(), default=(), help="Parts of the workload that are left out.")
@click.option("--moves", is_flag=True, help="Move partitions between brokers in every seed.")
@click.option("--brokers", type=click.IntRange(3, 9), help="How many, for the seed's own.")
@click.option("--partitions", type=click.IntRange(1, 9), help="At most so many.")
@click.option("--mutants", is_flag=True, help="Break the brokers: by all mutants, those named, `former` or `drawn`.")
@click.option(
    "--count", "drawn", type=click.IntRange(1), help=f"With --mutants drawn: how many; {DRAWN_MUTANTS} if not given."
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"With --mutants drawn: a folder for results ({RESULTS_FOLDER}).",
)
def simulate(
    names: tuple[str, ...], seeds: int | None, first: int, minutes: float | None, workers: int, truncation: str,
    seed: int | None, transcript: bool, listen: bool, shrink: bool, mutants: bool, drawn: int | None,
    keep: Path | None, **changes: Any,
) -> None:  # fmt: skip
    """Run clusters in the seeded world, break them, and check the invariants after every step.

    The same seed is the same run. The exit code is 1 where an invariant broke, or a mutant survived. `--mutants drawn`
    changes --count places of the source, drawn by --seed, and hunts each with unit tests, stories and --seeds seeds.
    """
    exit_with = click.get_current_context().exit
    if names and not mutants:
        raise click.UsageError(f"{names[0]} is no option; mutants are named after --mutants.")
    if (drawn is not None or keep is not None) and names != (DRAWN,):
        raise click.UsageError("--count and --keep belong to --mutants drawn.")
    if DRAWN in names:
        if names != (DRAWN,):
            raise click.UsageError("--mutants drawn takes no other names.")
        from tidelog.cli.simulate.drawn.drawn_hunt import run_drawn

        exit_with(
            run_drawn(drawn or DRAWN_MUTANTS, seed or 0, first, seeds or DRAWN_SEEDS, workers, keep or RESULTS_FOLDER)
        )
    if mutants:
        from tidelog.cli.simulate.mutant_hunt import run_mutants

        exit_with(run_mutants(names, first, seeds or MUTANT_SEEDS, workers))
    plan = _plan(seed if seed is not None else first, truncation, changes)
    if seed is not None:
        from tidelog.cli.simulate.seed_runs import run_one

        exit_with(run_one(plan, transcript=transcript, listen=listen, shrink=shrink))
    from dataclasses import replace

    from tidelog.cli.simulate.seed_runs import run_many

    wanted = islice(count(first), seeds if seeds is not None or minutes is not None else SEEDS)
    exit_with(run_many((replace(plan, seed=number) for number in wanted), workers, minutes))


def _plan(seed: int, truncation: str, changes: dict[str, Any]) -> "Plan":
    from tidelog.partition.truncation import GENERATIONS
    from tidelog.sim.nemesis import KINDS
    from tidelog.sim.plan import Plan
    from tidelog.sim.workload import LATER, PARTS

    for option, known, given in (
        ("--truncation", GENERATIONS, (truncation,)),
        ("--kinds", KINDS, changes["kinds"] or ()),
        ("--without", (*PARTS, *LATER), changes["without"]),
    ):
        for word in given:
            if word not in known:
                raise click.UsageError(f"{option} does not know {word!r}: {', '.join(known)}.")
    return Plan(seed, generation=truncation, **changes)
