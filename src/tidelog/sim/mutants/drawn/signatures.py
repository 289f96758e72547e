"""Which parameters of a function have the same annotated type, by the function's plain name."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.sim.mutants.drawn.walking import functions


class Signature(NamedTuple):
    """The annotation of each parameter that may be given by its place, and of each by its name; `self` is left out."""

    placed: tuple[str, ...]
    named: dict[str, str]


@dataclass(slots=True)
class Signatures:
    """Several functions may have one name: a type is known where all of them agree."""

    by_name: dict[str, list[Signature]] = field(default_factory=dict)

    def add(self, tree: ast.Module) -> None:
        for _, node in functions(tree):
            if not node.name.startswith("__"):
                self.by_name.setdefault(node.name, []).append(_of_function(node))
        for each in ast.walk(tree):
            if isinstance(each, ast.ClassDef):
                self.by_name.setdefault(each.name, []).append(_of_class(each))

    def same_places(self, name: str, first: int, second: int) -> bool:
        """Whether every function of this name has one type for both places."""
        known = self.by_name.get(name, ())
        return bool(known) and all(
            len(each.placed) > second and each.placed[first] == each.placed[second] != "" for each in known
        )

    def same_names(self, name: str, first: str, second: str) -> bool:
        """Whether every function of this name has one type for both keywords."""
        known = self.by_name.get(name, ())
        return bool(known) and all(each.named.get(first, "") == each.named.get(second) != "" for each in known)


def signatures(trees: Iterable[ast.Module]) -> Signatures:
    found = Signatures()
    for tree in trees:
        found.add(tree)
    return found


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature:
    placed = [*node.args.posonlyargs, *node.args.args]
    if placed and placed[0].arg in {"self", "cls"}:
        del placed[0]
    named = {each.arg: _text(each.annotation) for each in [*placed, *node.args.kwonlyargs]}
    return Signature(tuple(_text(each.annotation) for each in placed), named)


def _of_class(node: ast.ClassDef) -> Signature:
    """Of its constructor, or of the fields of a data class."""
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
