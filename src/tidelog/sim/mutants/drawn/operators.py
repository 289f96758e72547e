"""The table of operators: each finds what it may change at a node, and changes it in the tree."""

import ast
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from tidelog.sim.mutants.drawn.syntax import Signatures, Spot, head

NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
NEIGHBOUR: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.GtE: ">=",
    ast.Gt: ">",
    ast.LtE: "<=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}


class Edit(NamedTuple):
    """`change` describes the change in few words; `shown` returns (before, after) and is called before the change,
    where the statement does not show it.
    """

    change: str
    apply: Callable[[], None]
    shown: Callable[[], tuple[str, str]] | None = None


Operator = Callable[[Spot, Signatures], Iterator[Edit]]


def negate_comparison(spot: Spot, _: Signatures) -> Iterator[Edit]:
    yield from _compared(spot, NEGATED)


def neighbour_comparison(spot: Spot, _: Signatures) -> Iterator[Edit]:
    yield from _compared(spot, NEIGHBOUR)


def _compared(spot: Spot, table: dict[type[ast.cmpop], type[ast.cmpop]]) -> Iterator[Edit]:
    node = spot.node
    if isinstance(node, ast.Compare):
        for index, old in enumerate(node.ops):
            new = table.get(type(old))
            if new is not None:
                yield Edit(f"{SIGNS[type(old)]} to {SIGNS[new]}", partial(node.ops.__setitem__, index, new()))


def drop_branch(spot: Spot, _: Signatures) -> Iterator[Edit]:
    node = spot.node
    if isinstance(node, ast.If):
        never = ast.BoolOp(ast.And(), [node.test, ast.Constant(value=False)])
        yield Edit("never", partial(setattr, node, "test", never))
        if node.orelse and not (len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)):
            yield Edit(
                "no else", partial(setattr, node, "orelse", []), partial(_shown, node.orelse[0], "pass", "else: ")
            )
    elif isinstance(node, ast.IfExp):
        yield Edit("first only", partial(spot.put, node.body))
        yield Edit("second only", partial(spot.put, node.orelse))
    elif isinstance(node, ast.comprehension):
        for index in range(len(node.ifs)):
            yield Edit("no filter", partial(node.ifs.__delitem__, index))
    elif isinstance(node, ast.match_case) and isinstance(spot.parent, ast.Match) and len(spot.parent.cases) > 1:
        shown = partial(_shown, node.body[0], "no such case", f"case {ast.unparse(node.pattern)}: ")
        yield Edit("no case", partial(spot.parent.cases.remove, node), shown)


def _shown(statement: ast.stmt, after: str, prefix: str = "") -> tuple[str, str]:
    return f"{prefix}{head(statement)}", after


def drop_call(spot: Spot, _: Signatures) -> Iterator[Edit]:
    node = spot.node
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield Edit(ast.unparse(node.value.func).partition("\n")[0], partial(spot.put, ast.Pass()))


def move_constant(spot: Spot, _: Signatures) -> Iterator[Edit]:
    node = spot.node
    if isinstance(node, ast.Constant) and type(node.value) is int:
        for new in (node.value + 1, node.value - 1):
            yield Edit(f"{node.value} to {new}", partial(setattr, node, "value", new))


def return_early(spot: Spot, _: Signatures) -> Iterator[Edit]:
    """Return before each statement of a function that returns nothing; at once in one that returns a bool."""
    function, node, returned = spot.function.node, spot.node, spot.function.node.returns
    if spot.parent is not function or spot.field != "body" or not isinstance(node, ast.stmt):
        return
    is_over = isinstance(node, ast.Return | ast.Raise | ast.Pass) or _is_dots(node)
    if is_over or spot.index is None:
        return
    if isinstance(returned, ast.Constant) and returned.value is None:
        insert = partial(function.body.insert, spot.index, ast.Return(value=None))
        yield Edit("return", insert, partial(_shown, node, "return"))
    elif isinstance(returned, ast.Name) and returned.id == "bool" and spot.index == spot.block.start:
        for value in (True, False):
            early = ast.Return(value=ast.Constant(value=value))
            insert = partial(function.body.insert, spot.index, early)
            yield Edit(f"return {value}", insert, partial(_shown, node, f"return {value}"))


def _is_dots(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def swap_arguments(spot: Spot, known: Signatures) -> Iterator[Edit]:
    node = spot.node
    if not isinstance(node, ast.Call):
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    starred = (index for index, each in enumerate(node.args) if isinstance(each, ast.Starred))
    for index in range(next(starred, len(node.args)) - 1):
        if known.same_type_at(name, index, index + 1):
            first, second = ast.unparse(node.args[index]), ast.unparse(node.args[index + 1])
            if first != second:
                yield Edit(f"{first} and {second}", partial(_swap_arguments, node.args, index))
    for one, other in zip(node.keywords, node.keywords[1:], strict=False):
        is_known = one.arg and other.arg and known.same_type_of(name, one.arg, other.arg)
        if is_known and ast.unparse(one.value) != ast.unparse(other.value):
            yield Edit(f"{one.arg} and {other.arg}", partial(_swap_values, one, other))


def _swap_arguments(arguments: list[ast.expr], index: int) -> None:
    arguments[index], arguments[index + 1] = arguments[index + 1], arguments[index]


def _swap_values(first: ast.keyword, second: ast.keyword) -> None:
    first.value, second.value = second.value, first.value


def swap_logic(spot: Spot, _: Signatures) -> Iterator[Edit]:
    node = spot.node
    if isinstance(node, ast.BoolOp):
        new = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield Edit("and to or" if isinstance(new, ast.Or) else "or to and", partial(setattr, node, "op", new))


def drop_not(spot: Spot, _: Signatures) -> Iterator[Edit]:
    node = spot.node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield Edit("not", partial(spot.put, node.operand))


OPERATORS: dict[str, Operator] = {
    "negate": negate_comparison,
    "neighbour": neighbour_comparison,
    "drop branch": drop_branch,
    "drop call": drop_call,
    "constant": move_constant,
    "return early": return_early,
    "swap": swap_arguments,
    "logic": swap_logic,
    "drop not": drop_not,
}
