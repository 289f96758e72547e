"""Each operator of the table: source in, sources out."""

import ast

import pytest

from tidelog.sim.mutants.drawn.drawing import known_types, mutated, sites
from tidelog.sim.mutants.drawn.operators import OPERATORS

PLACES = "def place(low: int, high: int, name: str) -> None: ...\n"


def changed(operator, source):
    """What each site of the operator makes of the source: (change, source)."""
    known = known_types({"m": source, "places": PLACES})
    return [
        (site.change, ast.unparse(mutated(source, site, known).tree))
        for site in sites("m", source, known)
        if site.operator == operator
    ]


def of_expression(operator, expression):
    """The same for one expression that is returned."""
    made = changed(operator, f"def f(a, b, c):\n    return {expression}")
    return [(change, source.partition("return ")[2]) for change, source in made]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a < b", [("< to >=", "a >= b")]),
        ("a <= b", [("<= to >", "a > b")]),
        ("a > b", [("> to <=", "a <= b")]),
        ("a >= b", [(">= to <", "a < b")]),
        ("a == b", [("== to !=", "a != b")]),
        ("a != b", [("!= to ==", "a == b")]),
        ("a in b", [("in to not in", "a not in b")]),
        ("a not in b", [("not in to in", "a in b")]),
        ("a is b", [("is to is not", "a is not b")]),
        ("a is not b", [("is not to is", "a is b")]),
        ("a < b < c", [("< to >=", "a >= b < c"), ("< to >=", "a < b >= c")]),
    ],
)
def test_a_comparison_is_negated(expression, expected):
    assert of_expression("negate", expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a < b", [("< to <=", "a <= b")]),
        ("a <= b", [("<= to <", "a < b")]),
        ("a > b", [("> to >=", "a >= b")]),
        ("a >= b", [(">= to >", "a > b")]),
        ("a == b", []),
    ],
)
def test_a_comparison_becomes_its_neighbour(expression, expected):
    assert of_expression("neighbour", expression) == expected


def test_the_branch_of_an_if_is_dropped():
    made = changed("drop branch", "def f(a):\n    if a:\n        return 1\n    else:\n        return 2")
    assert made == [
        ("never", "def f(a):\n    if a and False:\n        return 1\n    else:\n        return 2"),
        ("no else", "def f(a):\n    if a:\n        return 1"),
    ]


def test_an_elif_is_a_branch_and_no_else():
    made = changed("drop branch", "def f(a, b):\n    if a:\n        g()\n    elif b:\n        h()")
    assert [change for change, _ in made] == ["never", "never"]
    assert "elif b and False:" in made[1][1]


def test_a_branch_of_an_expression_a_filter_and_a_case_are_dropped():
    assert of_expression("drop branch", "a if b else c") == [("first only", "a"), ("second only", "c")]
    assert of_expression("drop branch", "[x for x in a if b if c]") == [
        ("no filter", "[x for x in a if c]"),
        ("no filter", "[x for x in a if b]"),
    ]
    made = changed(
        "drop branch", "def f(a):\n    match a:\n        case 1:\n            g()\n        case _:\n            h()"
    )
    assert made == [
        ("no case", "def f(a):\n    match a:\n        case _:\n            h()"),
        ("no case", "def f(a):\n    match a:\n        case 1:\n            g()"),
    ]


def test_a_call_that_is_a_statement_is_dropped():
    made = changed("drop call", 'def f(a):\n    """Says."""\n    a.append(1)\n    return a.pop()')
    assert made == [("a.append", 'def f(a):\n    """Says."""\n    pass\n    return a.pop()')]


def test_a_constant_moves_by_one():
    assert of_expression("constant", "a[1:]") == [("1 to 2", "a[2:]"), ("1 to 0", "a[0:]")]
    assert of_expression("constant", "(True, 'a', 1.5, f'{1}')") == []


def test_a_function_that_returns_nothing_ends_before_each_of_its_statements():
    made = changed("return early", 'def f(a) -> None:\n    """Says."""\n    g()\n    if a:\n        h()')
    assert made == [
        ("return", 'def f(a) -> None:\n    """Says."""\n    return\n    g()\n    if a:\n        h()'),
        ("return", 'def f(a) -> None:\n    """Says."""\n    g()\n    return\n    if a:\n        h()'),
    ]


def test_a_function_that_returns_a_bool_knows_it_at_once():
    made = changed("return early", "def f(a) -> bool:\n    b = g(a)\n    return b")
    assert made == [
        ("return True", "def f(a) -> bool:\n    return True\n    b = g(a)\n    return b"),
        ("return False", "def f(a) -> bool:\n    return False\n    b = g(a)\n    return b"),
    ]
    assert changed("return early", "def f(a) -> int:\n    b = g(a)\n    return b") == []


def test_neighbouring_arguments_of_one_type_are_swapped():
    assert of_expression("swap", "place(a, b, c)") == [("a and b", "place(b, a, c)")]
    assert of_expression("swap", "place(a, a, c)") == []
    assert of_expression("swap", "place(low=a, high=b, name=c)") == [("low and high", "place(low=b, high=a, name=c)")]
    assert of_expression("swap", "place(*a, b, c)") == []
    assert of_expression("swap", "unknown(a, b)") == []


def test_arguments_of_a_data_class_and_of_a_constructor_are_swapped():
    point = "class Point:\n    x: int\n    y: int\n"
    span = "class Span:\n    def __init__(self, low: int, high: int):\n        self.low = low\n"
    made = changed("swap", f"{point}{span}def f(a, b):\n    return (Point(a, b), Span(a, b))")
    assert [change for change, _ in made] == ["a and b", "a and b"]
    assert made[0][1].endswith("return (Point(b, a), Span(a, b))")


def test_a_name_whose_functions_disagree_is_not_swapped():
    source = "def place(low: int, high: str): ...\ndef f(a, b):\n    return place(a, b)"
    assert changed("swap", source) == []


def test_logic_is_swapped_and_not_is_dropped():
    assert of_expression("logic", "a and b and c") == [("and to or", "a or b or c")]
    assert of_expression("logic", "a or b") == [("or to and", "a and b")]
    assert of_expression("drop not", "not a") == [("not", "a")]


def test_checks_and_what_is_said_are_left_alone():
    source = "class C:\n    def __repr__(self):\n        return 1 < 2\n    def f(self):\n        assert 1 < 2, 3"
    assert all(changed(operator, source) == [] for operator in OPERATORS)


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_changes_something_that_compiles(operator):
    source = (
        f"{PLACES}def f(a: int, b: int) -> None:\n    if a < b and not b:\n        a.append(1)\n    place(a, b, '')\n"
    )
    made = changed(operator, source)
    assert made
    for _, each in made:
        assert each != ast.unparse(ast.parse(source))
        compile(each, "m", "exec")
