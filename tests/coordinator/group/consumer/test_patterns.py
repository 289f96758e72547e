"""RE2's language over names of topics, against Python's where both mean the same, and in linear time."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.coordinator.group.consumer.patterns import compile_pattern
from tidelog.errors import ApiError, ErrorCode

NAMES = [
    "",
    "a",
    "b",
    "ab",
    "ba",
    "aab",
    "abab",
    "a.b",
    "a-b",
    "a_b",
    "A",
    "Ab",
    "9",
    "a9",
    "orders",
    "orders-2024",
    "__x",
]

MATCHES = {
    r"": {""},
    r"a": {"a"},
    r"a|b": {"a", "b"},
    r"^a$": {"a"},
    r"\Aa\z": {"a"},
    r"a.b": {"aab", "a.b", "a-b", "a_b"},
    r"a\.b": {"a.b"},
    r"\Qa.b\E": {"a.b"},
    r"a[.-]b": {"a.b", "a-b"},
    r"a[^.-]b": {"aab", "a_b"},
    r"(?:ab)+": {"ab", "abab"},
    r"(ab){2}": {"abab"},
    r"(?P<x>ab){1,}": {"ab", "abab"},
    r"(?<x>a)(?<y>b)?": {"a", "ab"},
    r"a{1,2}b": {"ab", "aab"},
    r"a*?b": {"b", "ab", "aab"},
    r"(?i)ab": {"ab", "Ab"},
    r"(?i:a)b": {"ab", "Ab"},
    r"(?i)a(?-i)b": {"ab", "Ab"},
    r"[[:alpha:]]9|\d": {"a9", "9"},
    r"\w+": set(NAMES) - {"", "a.b", "a-b", "orders-2024"},
    r"\W": set(),
    r"\pL": {"a", "b", "A"},
    r"\p{Lu}\P{Lu}*": {"A", "Ab"},
    r"orders(-\d{4})?": {"orders", "orders-2024"},
    r"\x61\x{62}": {"ab"},
    r"\141": {"a"},
    r"a\b.*": {"a", "a.b", "a-b"},
    r"a\Bb": {"ab"},
    r".*$|^never": set(NAMES),
    r"a{,2}": set(),
    r"a$b": set(),
    r"é|a": {"a"},
    r"[]a]": {"a"},
    r"[a-]": {"a"},
    r"[\w.]+": set(NAMES) - {"", "a-b", "orders-2024"},
    r"(|a)b": {"b", "ab"},
}


@pytest.mark.parametrize(("pattern", "names"), MATCHES.items())
def test_what_matches_whole(pattern, names):
    automaton = compile_pattern(pattern)
    assert {name for name in NAMES if automaton.matches(name)} == names


PROBLEMS = {
    "[": "missing closing ]",
    "[a": "missing closing ]",
    "[b-a]": "invalid character class range",
    r"[[:nothing:]]": "invalid character class range",
    "(": "missing closing )",
    "(a": "missing closing )",
    "a)": "unexpected )",
    "*": "missing argument to repetition operator",
    "a|*": "missing argument to repetition operator",
    "a**": "invalid nested repetition operator",
    "a{2}{3}": "invalid nested repetition operator",
    "a{1001}": "bad repetition operator",
    "a{2,1}": "bad repetition operator",
    "\\": "trailing backslash at end of expression",
    r"\8": "invalid escape sequence",
    r"(a)\1": "invalid escape sequence",
    r"\y": "invalid escape sequence",
    r"\p{Nothing}": "invalid character class range",
    "(?=a)": "invalid or unsupported Perl syntax",
    "(?!a)": "invalid or unsupported Perl syntax",
    "(?<=a)": "invalid or unsupported Perl syntax",
    "(?)": "invalid or unsupported Perl syntax",
    "(?P<x>a)(?P<x>b)": "duplicate capture group name",
    "(" * 200: "expression nests too deeply",
    "((a{1000}){1000}){1000}": "expression is too large",
    "((){1000}){1000}": "expression is too large",
}


@pytest.mark.parametrize(("pattern", "problem"), PROBLEMS.items())
def test_what_is_no_pattern(pattern, problem):
    with pytest.raises(ApiError) as error:
        compile_pattern(pattern)
    assert error.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert str(error.value) == f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {problem}."


@pytest.mark.parametrize(
    "pattern", [r"(a+)+b", r"(a|a)*b", r"(a*)*b", r"(.*)*[^a]", r"(a|aa)+$b", "a?" * 60 + "a" * 60]
)
def test_what_takes_others_forever_takes_no_time(pattern):
    """Python's own `re` would not come back from these."""
    assert not compile_pattern(pattern).matches("a" * 240)


atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", "-", r"\."])


def joined(parts):
    return st.one_of(
        st.lists(parts, min_size=1, max_size=3).map("".join),
        st.lists(parts, min_size=2, max_size=3).map(lambda each: f"(?:{'|'.join(each)})"),
        st.tuples(parts, st.sampled_from(["*", "+", "?", "{2}", "{1,2}"])).map(lambda each: f"(?:{each[0]}){each[1]}"),
    )


@given(st.recursive(atoms, joined, max_leaves=6), st.lists(st.text("ab.-_", max_size=6), max_size=8))
@settings(max_examples=100)
def test_it_matches_as_python_does(pattern, names):
    theirs, ours = re.compile(pattern), compile_pattern(pattern)
    assert [name for name in names if ours.matches(name)] == [name for name in names if theirs.fullmatch(name)]
