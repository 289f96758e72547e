"""All sites of a tree, some of them drawn by a seed, and the tree of a module with one of them changed."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from random import Random
from types import CodeType

from tidelog.sim.mutants.drawn.operators import OPERATORS, Edit
from tidelog.sim.mutants.drawn.syntax import Signatures, Spot, functions, head, signatures, spots

TARGETS = (
    "partition/*.py",
    "log/*.py",
    "controller/*.py",
    "coordinator/*.py",
    "api/records/*.py",
    "node/isr*.py",
    "node/fetching*.py",
)
"""Patterns of the files whose functions are mutated, below the package; `*` crosses directories."""

LEFT_OUT = frozenset({"__repr__", "__str__", "__hash__", "__init__", "check_invariants"})
"""Functions that describe or check something and decide nothing, and constructors, whose early end no
test survives.
"""

SHOWN = 160
"""Of a longer statement only the changed part is shown."""


@dataclass(frozen=True, slots=True)
class Site:
    """One possible change.

    `text` is its source line; `nth` tells it from equal changes on equal lines of the function; `number` is its
    position in the module; `block` is the first line of its block.
    """

    module: str
    function: str
    operator: str
    change: str
    line: int
    text: str
    nth: int
    number: int
    block: int

    @property
    def where(self) -> str:
        return f"{self.module}:{self.function}"

    @property
    def what(self) -> str:
        return f"{self.operator}: {self.change}"


@dataclass(frozen=True, slots=True)
class Mutation:
    """`before` and `after` are the changed code, as one line each."""

    tree: ast.Module
    before: str
    after: str

    def code(self, path: str) -> CodeType:
        return compile(self.tree, path, "exec", dont_inherit=True)


def is_target(path: str) -> bool:
    """Whether functions of this file are mutated; `path` is relative to the package."""
    return any(fnmatch(path, pattern) for pattern in TARGETS)


def known_types(sources: Mapping[str, str]) -> Signatures:
    return signatures(ast.parse(source) for source in sources.values())


def sites(module: str, source: str, known: Signatures) -> list[Site]:
    """Return all sites of one module, in the order of its source."""
    lines = source.splitlines()
    seen: dict[tuple[str, ...], int] = {}
    found = []
    for number, (operator, spot, edit) in enumerate(_edits(ast.parse(source), known)):
        text = lines[spot.line - 1].strip()
        key = (spot.function.name, operator, edit.change, text)
        nth = seen[key] = seen.get(key, -1) + 1
        block = spot.block.line
        site = Site(module, spot.function.name, operator, edit.change, spot.line, text, nth, number, block)
        found.append(site)
    return found


def draw(sources: Mapping[str, str], count: int, seed: int) -> list[Site]:
    """Return `count` of all sites (or all), in the order in which they are drawn."""
    known = known_types(sources)
    everything = [site for module in sorted(sources) for site in sites(module, sources[module], known)]
    return Random(f"drawn {seed}").sample(everything, min(count, len(everything)))


def mutated(source: str, site: Site, known: Signatures) -> Mutation:
    tree = ast.parse(source)
    for number, (operator, spot, edit) in enumerate(_edits(tree, known)):
        if number == site.number:
            assert (operator, edit.change) == (site.operator, site.change), site
            before, after = _apply(spot, edit)
            return Mutation(ast.fix_missing_locations(tree), before, after)
    raise LookupError(f"{site.module} has no site {site.number}")


def _edits(tree: ast.Module, known: Signatures) -> Iterator[tuple[str, Spot, Edit]]:
    for function in functions(tree):
        if function.node.name in LEFT_OUT:
            continue
        for spot in spots(function):
            for name, operator in OPERATORS.items():
                for edit in operator(spot, known):
                    yield name, spot, edit


def _apply(spot: Spot, edit: Edit) -> tuple[str, str]:
    """Apply the edit; return the code before and after."""
    statements: Sequence[ast.stmt] = getattr(spot.block.owner, spot.block.field)
    index = next(index for index, each in enumerate(statements) if each is spot.statement)
    before, node = head(spot.statement), ast.unparse(spot.node)
    shown = edit.shown() if edit.shown is not None else None
    edit.apply()
    if shown is not None:
        return shown
    after = head(statements[index])
    fits = before != after and len(before) <= SHOWN
    return (before, after) if fits else (node, ast.unparse(spot.present))
