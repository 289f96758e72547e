"""Verdicts on drawn mutants: stored as JSON lines, so that an interrupted hunt resumes, and printed.

A killed mutant stays killed while the sources are the same. A survivor is hunted again if tests or seeds changed.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from tidelog.cli.simulate.drawn.child_process import Killer
from tidelog.cli.simulate.drawn.source_tree import SourceTree
from tidelog.sim.mutants.drawn.drawing import Site

KINDS = ("test", "story", "seed", "time-out")
"""What can kill a mutant, in the order of the summary."""


@dataclass(frozen=True, slots=True)
class MutantVerdict:
    """`found` is what killed the mutant, None if it survived; `before` and `after` show the change."""

    site: Site
    found: Killer | None
    before: str = ""
    after: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class StoredVerdicts:
    """The verdicts of earlier hunts. A survivor counts only if it met the same tests and seeds: `seeds` from `first`
    on."""

    path: Path
    tests_key: str
    first: int
    seeds: int
    known: dict[tuple[str, int], MutantVerdict] = field(default_factory=dict)

    def find(self, site: Site) -> MutantVerdict | None:
        verdict = self.known.get((site.module, site.number))
        return verdict if verdict is not None and verdict.site == site else None

    def load(self) -> None:
        for line in self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else ():
            stored = json.loads(line)
            site = Site(**stored["site"])
            found = Killer(*stored["found"]) if stored["found"] else None
            if found is not None or [self.tests_key, self.first, self.seeds] == stored["hunters"]:
                verdict = MutantVerdict(site, found, stored["before"], stored["after"], stored["seconds"])
                self.known[site.module, site.number] = verdict

    def add(self, verdict: MutantVerdict) -> None:
        site = {name: getattr(verdict.site, name) for name in Site.__slots__}
        line = {
            "site": site,
            "found": verdict.found,
            "before": verdict.before,
            "after": verdict.after,
            "seconds": round(verdict.seconds, 1),
            "hunters": [self.tests_key, self.first, self.seeds],
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def load_stored_verdicts(tree: SourceTree, folder: Path, first: int, seeds: int) -> StoredVerdicts:
    stored = StoredVerdicts(folder / f"mutants-{tree.source_key}.jsonl", tree.all_tests_key, first, seeds)
    stored.load()
    return stored


def verdict_row(tree: SourceTree, number: int, verdict: MutantVerdict) -> str:
    site, found = verdict.site, verdict.found
    killer = "survived" if found is None else f"{found.by} {found.name}"
    if found is not None and found.by == "seed":
        killer += f" {found.message}"
    return f"{number:>4} {_location(tree, site)} {site.function} ({site.what}) {killer}"


def print_summary(tree: SourceTree, verdicts: Sequence[MutantVerdict]) -> int:
    """Print survivors and totals; returns how many survived without being known as equivalent."""
    survivors = [verdict for verdict in verdicts if verdict.found is None]
    for verdict in survivors:
        site = verdict.site
        click.echo(f"survived {_location(tree, site)} {site.function} ({site.what}, nth {site.nth})")
        click.echo(f"-  {verdict.before}\n+  {verdict.after}")
    counts = Counter(verdict.found.by for verdict in verdicts if verdict.found)
    killed = sum(counts[kind] for kind in KINDS)
    click.echo("killed by: " + ", ".join(f"{kind} {counts[kind]}" for kind in KINDS))
    share = f" ({100 * killed // len(verdicts)} %)" if verdicts else ""
    click.echo(
        f"drawn: killed {killed} of {len(verdicts)}{share}, equivalent {counts['equivalent']}, "
        f"survived {len(survivors)} {'FAILED' if survivors else 'ok'}"
    )
    return len(survivors)


def _location(tree: SourceTree, site: Site) -> str:
    path = tree.path(site.module)
    return f"{path.relative_to(tree.root or tree.package.parent)}:{site.line}"
