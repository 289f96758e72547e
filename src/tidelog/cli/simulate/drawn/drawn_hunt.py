"""The hunt: draws mutants, and runs against each the tests that reach it, then stories, then seeds, until one kills
it."""

import json
import marshal
import time
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import click

from tidelog.cli.long_running import progress_line, sigterm_as_interrupt
from tidelog.cli.simulate.drawn import hunt_results, reached_blocks
from tidelog.cli.simulate.drawn.child_process import Killer, run_child
from tidelog.cli.simulate.drawn.hunt_results import MutantVerdict, load_stored_verdicts
from tidelog.cli.simulate.drawn.source_tree import SourceTree, mirror, this_tree
from tidelog.cli.simulate.process_pool import run_in_order
from tidelog.sim.mutants.drawn.drawing import Site, draw, known_types, mutated
from tidelog.sim.mutants.drawn.equivalents import reason
from tidelog.sim.mutants.drawn.syntax import Signatures

INTERRUPTED = 130
EQUIVALENT = "equivalent"
NO_TESTS = "No tests or no pytest found; mutants are hunted only by stories and seeds."
MAX_FALSE_KILLS = 3
"""How many tests that also fail without the mutant are dropped before the wave is given up."""


@dataclass(frozen=True, slots=True)
class Hunters:
    """What hunts each mutant. `reach` are the files of blocks that tests reach, none if there are no tests; `ends` is
    the file of story ends; `seeds` is the number of simulator seeds, from `first` on."""

    reach: tuple[Path, ...]
    ends: Path
    first: int
    seeds: int


@dataclass(frozen=True, slots=True)
class DrawnMutant:
    """A mutant with its marshalled code."""

    site: Site
    code: bytes

    def orders(self, stage: str, **more: Any) -> dict[str, Any]:
        return {"stage": stage, "module": self.site.module, **more}


def run_drawn(count: int, seed: int, first: int, seeds: int, workers: int, keep: Path) -> int:
    """Hunt drawn mutants; returns the exit code, 1 if one survived that is not known as equivalent, else 130 if
    interrupted, else 0."""
    tree, is_complete = this_tree(), True
    verdicts: list[MutantVerdict] = []
    keep.mkdir(parents=True, exist_ok=True)
    drawn = draw(tree.sources, count, seed)
    stored = load_stored_verdicts(tree, keep, first, seeds)
    if tree.root is None:
        click.echo(NO_TESTS, err=True)
    try:
        with sigterm_as_interrupt(), progress_line() as show:
            paths = tuple(reached_blocks.measured(tree, keep, workers, show)) if tree.root else ()
            hunters = Hunters(paths, _story_ends(tree, keep), first, seeds)
            known = [stored.find(site) for site in drawn]
            unknown = (site for site, verdict in zip(drawn, known, strict=True) if verdict is None)
            hunted = run_in_order(partial(_hunt, hunters), unknown, workers)
            for verdict in (next(hunted) if old is None else old for old in known):
                if stored.find(verdict.site) is None and reason(verdict.site) is None:
                    stored.add(verdict)
                verdicts.append(_unless_equivalent(verdict))
                click.echo(hunt_results.verdict_row(tree, len(verdicts), verdicts[-1]))
                show(lambda: f"{len(verdicts)} of {len(drawn)} mutants")
    except KeyboardInterrupt:
        is_complete = False
        click.echo("interrupted; results so far:", err=True)
    survivors = hunt_results.print_summary(tree, verdicts)
    return 1 if survivors else 0 if is_complete else INTERRUPTED


def _unless_equivalent(verdict: MutantVerdict) -> MutantVerdict:
    """The verdict, or `equivalent` for a survivor on the list of equivalents, also if it was hunted before it was
    listed."""
    why = None if verdict.found else reason(verdict.site)
    if why is None:
        return verdict
    return MutantVerdict(verdict.site, Killer(EQUIVALENT, why), verdict.before, verdict.after, verdict.seconds)


@cache
def _known() -> Signatures:
    return known_types(this_tree().sources)


def _hunt(hunters: Hunters, site: Site) -> MutantVerdict:
    started_at, tree = time.monotonic(), this_tree()
    mutation = mutated(tree.sources[site.module], site, _known())
    if reason(site) is not None:
        return MutantVerdict(site, None, mutation.before, mutation.after)
    mutant = DrawnMutant(site, marshal.dumps(mutation.code(str(tree.path(site.module)))))
    found = _by_tests(hunters, mutant) or _by_stories(hunters, mutant) or _by_seeds(hunters, mutant)
    return MutantVerdict(site, found, mutation.before, mutation.after, time.monotonic() - started_at)


def _by_tests(hunters: Hunters, mutant: DrawnMutant) -> Killer | None:
    tests = reached_blocks.read(hunters.reach)
    for wave in tests.waves(mutant.site, mirror(mutant.site.module)):
        left = dict(wave)
        for _ in range(MAX_FALSE_KILLS):
            found = run_child(mutant.orders("tests", limits=left), "test", this_tree().root, mutant.code)
            if found is None:
                break
            if _is_confirmed(found, left, mirror(mutant.site.module)):
                return found
            del left[found.name]
    return None


def _is_confirmed(found: Killer, limits: dict[str, int], near: str) -> bool:
    """Whether the mutant caused the failure. A failed test beside the code is proof enough. Another test, or a
    time-out, may fail by itself on a busy machine or after other tests, so it must pass at the same point without the
    mutant."""
    if found.name not in limits or (found.by == "test" and found.name.startswith(near)):
        return True
    files = list(dict.fromkeys(map(_file, limits)))
    until_it = files[: files.index(_file(found.name)) + 1]
    same = {name: limit for name, limit in limits.items() if _file(name) in until_it}
    return run_child({"stage": "tests", "limits": same}, "test", this_tree().root) is None


def _file(test: str) -> str:
    return test.partition("::")[0]


def _by_stories(hunters: Hunters, mutant: DrawnMutant) -> Killer | None:
    ends = json.loads(hunters.ends.read_text(encoding="utf-8"))
    orders = mutant.orders("stories", scenarios=_scenarios(this_tree()), ends=ends)
    return run_child(orders, "story", this_tree().root, mutant.code)


def _story_ends(tree: SourceTree, keep: Path) -> Path:
    """The file of the ends of all stories without a mutant; written if it is missing."""
    path = keep / f"stories-{tree.source_key}-{tree.tests_key('scenarios') if tree.root else ''}.json"
    if not path.exists():
        half = path.with_suffix(".part")
        late = run_child({"stage": "stories", "scenarios": _scenarios(tree), "into": str(half)}, "story", tree.root)
        if late is not None:
            raise click.ClickException(f"story {late.name} timed out")
        half.replace(path)
    return path


def _scenarios(tree: SourceTree) -> str | None:
    return str(tree.root / "tests" / "scenarios") if tree.root else None


def _by_seeds(hunters: Hunters, mutant: DrawnMutant) -> Killer | None:
    """The seed that kills the mutant; seeds that fail without the mutant are skipped."""
    seed, end = hunters.first, hunters.first + hunters.seeds
    while seed < end:
        orders = mutant.orders("seeds", first=seed, count=end - seed)
        found = run_child(orders, "seed", this_tree().root, mutant.code)
        if found is None or not found.name.isdecimal():
            return found
        seed = int(found.name)
        if run_child({"stage": "seeds", "first": seed, "count": 1}, "seed", this_tree().root) is None:
            return found
        seed += 1
    return None
