"""Which tests reach which block: measured once per folder of tests, and stored until the sources or the tests
change."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from math import ceil
from pathlib import Path

from click import ClickException

from tidelog.cli.long_running import Show
from tidelog.cli.simulate.drawn.child_process import run_child
from tidelog.cli.simulate.drawn.source_tree import TEST_FOLDERS, SourceTree, this_tree
from tidelog.cli.simulate.process_pool import run_in_order
from tidelog.sim.mutants.drawn.drawing import Site
from tidelog.sim.mutants.drawn.importing import name_of

BUDGET_S = 20.0
"""The measured time of the tests in one wave, fastest first."""
LEAST_LIMIT_S, LIMIT_TIMES = 20, 10
"""A test times out after this many seconds, or this many times its measured time, whichever is longer."""


@dataclass(slots=True)
class ReachedBlocks:
    """The seconds of each test, the tests by block, and the blocks that ran during imports, on which any test may
    depend."""

    tests: dict[str, float] = field(default_factory=dict)
    by_block: dict[str, list[str]] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)

    def add(self, path: Path) -> None:
        measured = json.loads(path.read_text(encoding="utf-8"))
        self.imported.update(measured["imported"])
        for name, (seconds, blocks) in measured["tests"].items():
            self.tests[name] = seconds
            for block in blocks:
                self.by_block.setdefault(block, []).append(name)

    def waves(self, site: Site, mirror: str) -> Iterator[dict[str, int]]:
        """Yield the tests that reach the site, with time limits in seconds: those of its own folder, then the
        others."""
        block = name_of(site.module, site.block)
        names = set(self.by_block.get(block, ()))
        if block in self.imported:
            names.update(name for name in self.tests if name.startswith(mirror))
        near = {name for name in names if name.startswith(mirror)}
        for wave in (near, names - near):
            chosen = self._within_budget(wave)
            if chosen:
                yield {name: limit(self.tests[name]) for name in chosen}

    def _within_budget(self, names: Iterable[str]) -> list[str]:
        """The fastest tests within the budget, grouped by file, because tests of a file may share expensive
        fixtures."""
        chosen: dict[str, list[str]] = {}
        left = BUDGET_S
        for name in sorted(names, key=lambda name: (self.tests[name], name)):
            left -= self.tests[name]
            if left < 0:
                break
            chosen.setdefault(name.partition("::")[0], []).append(name)
        files = sorted(chosen.values(), key=lambda names: sum(self.tests[name] for name in names))
        return [name for names in files for name in names]


def limit(seconds: float) -> int:
    return max(LEAST_LIMIT_S, ceil(LIMIT_TIMES * seconds))


def measured(tree: SourceTree, keep: Path, workers: int, show: Show) -> list[Path]:
    """The files of blocks that each folder's tests reach; missing files are measured."""
    assert tree.root is not None
    paths = {
        folder: keep / f"reach-{folder}-{tree.source_key}-{tree.tests_key(folder)}.json" for folder in TEST_FOLDERS
    }
    missing = [(folder, str(path)) for folder, path in paths.items() if not path.exists()]

    def line(number: int) -> str:
        return f"measuring which tests reach what: {number} of {len(missing)} folders"

    show(partial(line, 0))
    for number, _ in enumerate(run_in_order(_measure, iter(missing), workers), 1):
        show(partial(line, number))
    return [*paths.values()]


@cache
def read(paths: tuple[Path, ...]) -> ReachedBlocks:
    reach = ReachedBlocks()
    for path in paths:
        reach.add(path)
    return reach


def _measure(wanted: tuple[str, str]) -> None:
    folder, into = wanted
    tree = this_tree()
    half = f"{into}.part"
    orders = {"stage": "measure", "paths": [f"tests/{folder}"], "into": half, "probes": sorted(tree.sources)}
    late = run_child(orders, "test", tree.root)
    if late is not None:
        raise ClickException(f"{late.name} timed out during measurement")
    Path(half).replace(into)
