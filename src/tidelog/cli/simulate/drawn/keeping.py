"""What became of mutants, a line of JSON each, so that a hunt that was cut off goes on where it was.

A mutant that was found out stays so while the sources are the same; one that survived is hunted again where there are
other tests, or more seeds.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.cli.simulate.drawn.children import Found
from tidelog.cli.simulate.drawn.tree import Tree
from tidelog.sim.mutants.drawn.drawing import Site


@dataclass(frozen=True, slots=True)
class Verdict:
    """`found`: by what, None where the mutant survived; `before` and `after` show the change."""

    site: Site
    found: Found | None
    before: str = ""
    after: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class Kept:
    """`seeds`: how many are to hunt each mutant, from the first on."""

    path: Path
    tests_key: str
    first: int
    seeds: int
    known: dict[tuple[str, int], Verdict] = field(default_factory=dict)

    def find(self, site: Site) -> Verdict | None:
        verdict = self.known.get((site.module, site.number))
        return verdict if verdict is not None and verdict.site == site else None

    def load(self) -> None:
        for line in self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else ():
            kept = json.loads(line)
            site = Site(**kept["site"])
            found = Found(*kept["found"]) if kept["found"] else None
            if found is not None or [self.tests_key, self.first, self.seeds] == kept["hunters"]:
                verdict = Verdict(site, found, kept["before"], kept["after"], kept["seconds"])
                self.known[site.module, site.number] = verdict

    def add(self, verdict: Verdict) -> None:
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


def kept(tree: Tree, folder: Path, first: int, seeds: int) -> Kept:
    found = Kept(folder / f"mutants-{tree.source_key}.jsonl", tree.all_tests_key, first, seeds)
    found.load()
    return found
