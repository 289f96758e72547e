"""A module whose every block tells that it runs, so that a mutant meets only those tests that reach it."""

import ast
from types import CodeType

from tidelog.sim.mutants.drawn.walking import blocks, functions

REACHED = "__reached__"
"""A builtin of the process that measures: called with the name of each block that runs."""


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
