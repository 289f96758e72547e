"""`tidelog simulate`: its options, and which kind of run they select."""

from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from tidelog.sim.plan import Plan

SEEDS = 100
MUTANT_SEEDS = 2_000
DRAWN = "drawn"
DRAWN_MUTANTS, DRAWN_SEEDS = 200, 200
RESULTS_FOLDER = Path(".cache/mutants")
MAX_WORKERS = 64

QUORUM_OPTIONS = {"names", "quorum", "seeds", "first", "minutes", "workers", "seed", "transcript", "mutants"}
"""The parameters that have an effect with --quorum."""


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
@click.option(
    "--seeds", type=click.IntRange(1), help=f"Number of seeds (default: {SEEDS}, or no limit with --minutes)."
)
@click.option("--from", "first", type=click.IntRange(0), default=0, show_default=True, help="First seed.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Minutes after which no seed is started.")
@click.option(
    "--workers", type=click.IntRange(1, MAX_WORKERS), default=1, show_default=True, help="Number of processes."
)
@click.option(
    "--truncation",
    default="kip_320",
    show_default=True,
    help="Truncation rule: high_watermark, kip_101, kip_279 or kip_320.",
)
@click.option(
    "--seed", type=click.IntRange(0), help="Run a single seed and report the outcome; also the seed of drawn mutants."
)
@click.option("--transcript", is_flag=True, help="With --seed: print every event.")
@click.option("--listen", is_flag=True, help="With --seed: print every event and message.")
@click.option("--shrink", is_flag=True, help="With --seed: find a smaller run that fails in the same way.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    help="Simulated time with faults, in seconds (default: 30).",
)
@click.option("--kinds", type=CommaList(), help="Fault kinds to inject (default: drawn from the seed).")
@click.option("--only", type=CommaList(int), help="With --seed: numbers of the faults to inject (default: all).")
@click.option("--without", type=CommaList(), default=(), help="Parts of the workload to leave out.")
@click.option("--moves", is_flag=True, help="Move partitions between brokers in every seed.")
@click.option("--brokers", type=click.IntRange(3, 9), help="Number of brokers (default: drawn from the seed).")
@click.option("--partitions", type=click.IntRange(1, 9), help="Maximum number of partitions.")
@click.option("--quorum", is_flag=True, help="Simulate metadata quorums instead of clusters of brokers.")
@click.option(
    "--mutants", is_flag=True, help="Search for seeds that detect mutants: all, the named ones, `former` or `drawn`."
)
@click.option(
    "--count",
    "drawn",
    type=click.IntRange(1),
    help=f"With --mutants drawn: number of mutants (default: {DRAWN_MUTANTS}).",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"With --mutants drawn: folder for results (default: {RESULTS_FOLDER}).",
)
def simulate(
    names: tuple[str, ...], seeds: int | None, first: int, minutes: float | None, workers: int, truncation: str,
    seed: int | None, transcript: bool, listen: bool, shrink: bool, mutants: bool, drawn: int | None,
    keep: Path | None, quorum: bool, **changes: Any,
) -> None:  # fmt: skip
    """Run simulated clusters with faults, and check invariants after every step.

    The same seed gives the same run. The exit code is 1 if an invariant is violated or a mutant survives. `--mutants
    drawn` changes the source at --count locations that --seed selects, and runs unit tests, stories and --seeds seeds
    against each change.
    """
    exit_with = click.get_current_context().exit
    if names and not mutants:
        raise click.UsageError(f"Unexpected argument {names[0]}; mutant names require --mutants.")
    if quorum:
        _check_quorum_options()
        exit_with(_run_quorum(names, first, seeds, minutes, workers, seed, transcript=transcript, mutants=mutants))
    if (drawn is not None or keep is not None) and names != (DRAWN,):
        raise click.UsageError("--count and --keep require --mutants drawn.")
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


def _check_quorum_options() -> None:
    context = click.get_current_context()
    for each in context.command.params:
        name = each.name or ""
        if name not in QUORUM_OPTIONS and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{each.opts[0]} has no effect with --quorum.")


def _run_quorum(
    names: tuple[str, ...], first: int, seeds: int | None, minutes: float | None, workers: int, seed: int | None,
    *, transcript: bool, mutants: bool,
) -> int:  # fmt: skip
    from tidelog.cli.simulate.quorum_runs import run_quorum, run_quorum_mutants, run_quorums

    if mutants:
        return run_quorum_mutants(names, range(first, first + (seeds or MUTANT_SEEDS)))
    if seed is not None:
        return run_quorum(seed, transcript=transcript)
    return run_quorums(
        islice(count(first), seeds if seeds is not None or minutes is not None else SEEDS), workers, minutes
    )


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
                raise click.UsageError(f"{option}: unknown value {word!r}; expected one of {', '.join(known)}.")
    return Plan(seed, generation=truncation, **changes)
