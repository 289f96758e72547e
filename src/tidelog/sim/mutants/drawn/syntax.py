"""Walk the syntax tree of a module: functions, their blocks, the nodes that may be changed, parameters by type."""

import ast
import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

NOT_ENTERED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assert, ast.Import, ast.ImportFrom)
"""Statements that are not mutated: definitions have their own entries, and an assertion is a check, not behaviour."""

NOT_FOLLOWED = frozenset({"annotation", "type_comment", "ctx", "op", "ops"})
"""Fields that contain nothing to change, or that an operator changes from the node above."""


class Function(NamedTuple):
    """`name` is qualified within the module."""

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef


class Block(NamedTuple):
    """Statements that run one after the other: `owner.field[start:]`. `line` is that of the first."""

    owner: ast.AST
    field: str
    start: int
    line: int

    @property
    def statements(self) -> list[ast.stmt]:
        found: list[ast.stmt] = getattr(self.owner, self.field)
        return found


@dataclass(slots=True)
class Spot:
    """A node and its location: `parent.field`, or `parent.field[index]`. `statement` is the innermost around it."""

    function: Function
    block: Block
    statement: ast.stmt
    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None = None

    @property
    def line(self) -> int:
        return _line(self.node) or self.statement.lineno

    @property
    def present(self) -> ast.AST:
        """The current node at this location."""
        found: Any = getattr(self.parent, self.field)
        here: ast.AST = found if self.index is None else found[self.index]
        return here

    def put(self, new: ast.AST) -> None:
        """Replace the node."""
        ast.copy_location(new, self.statement)
        ast.copy_location(new, self.node)
        if self.index is None:
            setattr(self.parent, self.field, new)
        else:
            getattr(self.parent, self.field)[self.index] = new


def functions(node: ast.AST, prefix: str = "") -> Iterator[Function]:
    """Yield all functions below the node, methods and nested ones included, in the order of the source."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(f"{prefix}{child.name}", child)
            yield from functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from functions(child, f"{prefix}{child.name}.")
        else:
            yield from functions(child, prefix)


def blocks(function: Function) -> Iterator[Block]:
    """Every block of the function, the outer ones first."""
    yield from _blocks(_whole(function))


def spots(function: Function) -> Iterator[Spot]:
    """Every node inside the function, in the order of the source."""
    yield from _spots(function, _whole(function))


def head(statement: ast.AST) -> str:
    """The statement without the blocks below it, in one line."""
    return ast.unparse(statement).partition("\n")[0]


def _whole(function: Function) -> Block:
    body = function.node.body
    start = 1 if len(body) > 1 and ast.get_docstring(function.node, clean=False) is not None else 0
    return Block(function.node, "body", start, body[start].lineno)


def _line(node: ast.AST) -> int:
    """Return the line, or 0 if neither the node nor its pattern has one."""
    if isinstance(node, ast.match_case):
        return node.pattern.lineno
    return getattr(node, "lineno", 0)


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for statement in block.statements[block.start :]:
        if not isinstance(statement, NOT_ENTERED):
            for below in _below(statement):
                yield from _blocks(below)


def _below(node: ast.AST) -> Iterator[Block]:
    """Yield the blocks directly below a statement, those of its cases and handlers included."""
    for field, value in ast.iter_fields(node):
        if not isinstance(value, list) or not value:
            continue
        if isinstance(value[0], ast.stmt):
            yield Block(node, field, 0, value[0].lineno)
        elif isinstance(value[0], ast.match_case | ast.ExceptHandler):
            for item in value:
                yield from _below(item)


def _spots(function: Function, block: Block) -> Iterator[Spot]:
    for index, statement in enumerate(block.statements):
        if index >= block.start and not isinstance(statement, NOT_ENTERED):
            spot = Spot(function, block, statement, statement, block.owner, block.field, index)
            yield spot
            yield from _within(spot)


def _within(spot: Spot) -> Iterator[Spot]:
    if isinstance(spot.node, ast.JoinedStr):  # a message for people
        return
    for field, value in ast.iter_fields(spot.node):
        if field in NOT_FOLLOWED:
            continue
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield from _spots(spot.function, Block(spot.node, field, 0, value[0].lineno))
            continue
        items: list[tuple[int | None, Any]] = [*enumerate(value)] if isinstance(value, list) else [(None, value)]
        for index, item in items:
            if isinstance(item, ast.AST):
                below = Spot(spot.function, spot.block, spot.statement, item, spot.node, field, index)
                yield below
                yield from _within(below)


class Signature(NamedTuple):
    """The annotation of each positional parameter, and of each by its name; without `self`."""

    positional: tuple[str, ...]
    named: dict[str, str]


@dataclass(slots=True)
class Signatures:
    """Signatures by function name; several functions may share a name, so a type counts only if all agree."""

    by_name: dict[str, list[Signature]] = dataclasses.field(default_factory=dict)

    def add(self, tree: ast.Module) -> None:
        for _, node in functions(tree):
            if not node.name.startswith("__"):
                self.by_name.setdefault(node.name, []).append(_of_function(node))
        for each in ast.walk(tree):
            if isinstance(each, ast.ClassDef):
                self.by_name.setdefault(each.name, []).append(_of_class(each))

    def same_type_at(self, name: str, first: int, second: int) -> bool:
        """Whether every function of this name has one type at both positions."""
        known = self.by_name.get(name, ())
        return bool(known) and all(
            len(each.positional) > second and each.positional[first] == each.positional[second] != "" for each in known
        )

    def same_type_of(self, name: str, first: str, second: str) -> bool:
        """Whether every function of this name has one type for both keywords."""
        known = self.by_name.get(name, ())
        return bool(known) and all(each.named.get(first, "") == each.named.get(second) != "" for each in known)


def signatures(trees: Iterable[ast.Module]) -> Signatures:
    found = Signatures()
    for tree in trees:
        found.add(tree)
    return found


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature:
    positional = [*node.args.posonlyargs, *node.args.args]
    if positional and positional[0].arg in {"self", "cls"}:
        del positional[0]
    named = {each.arg: _text(each.annotation) for each in [*positional, *node.args.kwonlyargs]}
    return Signature(tuple(_text(each.annotation) for each in positional), named)


def _of_class(node: ast.ClassDef) -> Signature:
    """Return the signature of the constructor, or of the fields of a data class."""
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return _of_function(item)
    named = {
        item.target.id: ast.unparse(item.annotation)
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    return Signature(tuple(named.values()), named)


def _text(annotation: ast.expr | None) -> str:
    return "" if annotation is None else ast.unparse(annotation)
