"""An import hook that gives some modules other code than their files contain. No file is changed.

`probed_code` is a module's code with a call in every block that reports its name, so that a mutant meets only those
tests that reach it.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from tidelog.sim.mutants.drawn.syntax import blocks, functions

Make = Callable[[str, str], CodeType]
"""Given the source and the path of a module, its code."""

REACHED = "__reached__"
"""A builtin of the measuring process: called with the name of each block that runs."""


class Substitutes(MetaPathFinder):
    """Finds the modules of the table, and loads what their functions make."""

    def __init__(self, makes: Mapping[str, Make]) -> None:
        self._makes = makes

    def __repr__(self) -> str:
        return f"<Substitutes for {', '.join(self._makes)}>"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        make = self._makes.get(fullname)
        spec = None if make is None else PathFinder.find_spec(fullname, path)
        if spec is not None and make is not None:
            assert spec.origin is not None, spec
            spec.loader = _Loader(fullname, spec.origin, make)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, make: Make) -> None:
        super().__init__(fullname, path)
        self._make = make

    def get_code(self, fullname: str) -> CodeType:
        """Past the cache of compiled modules, which is for the code of the file."""
        path = self.get_filename(fullname)
        return self._make(self.get_data(path).decode(), path)


@contextmanager
def substituted(makes: Mapping[str, Make]) -> Iterator[None]:
    """Modules that are imported within are what `makes` makes; those that were imported before cannot be."""
    early = sorted(makes.keys() & sys.modules.keys())
    if early:
        raise ImportError(f"{', '.join(early)}: imported before a substitute was there")
    finder = Substitutes(makes)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def name_of(module: str, line: int) -> str:
    """`line` is where the block's first statement is."""
    return f"{module}:{line}"


def probed(module: str, source: str) -> ast.Module:
    tree = ast.parse(source)
    found = [block for function in functions(tree) for block in blocks(function)]
    for block in found:
        call = ast.Call(ast.Name(REACHED, ast.Load()), [ast.Constant(value=name_of(module, block.line))], [])
        block.statements.insert(block.start, ast.Expr(call))
    return ast.fix_missing_locations(tree)


def probed_code(module: str, source: str, path: str) -> CodeType:
    return compile(probed(module, source), path, "exec", dont_inherit=True)
