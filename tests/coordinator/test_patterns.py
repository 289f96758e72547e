"""RE2's language over names of topics, in linear time, and Kafka's words for what is no pattern."""

import pytest

from tidelog.coordinator.patterns import MAX_LENGTH, PatternProblem, whole_matcher

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
    matches = whole_matcher(pattern)
    assert {name for name in NAMES if matches(name)} == names


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
    "((a{1000}){1000}){1000}": "bad repetition operator",
}


@pytest.mark.parametrize(("pattern", "problem"), PROBLEMS.items())
def test_what_is_no_pattern(pattern, problem):
    with pytest.raises(PatternProblem) as error:
        whole_matcher(pattern)
    assert str(error.value) == problem


@pytest.mark.parametrize(
    "pattern", [r"(a+)+b", r"(a|a)*b", r"(a*)*b", r"(.*)*[^a]", r"(a|aa)+$b", "a?" * 60 + "a" * 60]
)
def test_what_takes_others_forever_takes_no_time(pattern):
    """Python's own `re` would not come back from these."""
    assert not whole_matcher(pattern)("a" * 240)


@pytest.mark.parametrize("pattern", ["a" * (MAX_LENGTH + 1), "(a{0,100}){0,9}" * 9, "(?:.*a){1000}"])
def test_a_pattern_that_would_take_long_is_refused(pattern):
    with pytest.raises(PatternProblem, match="expression is too large"):
        whole_matcher(pattern)


def test_a_list_of_many_names_is_no_long_pattern():
    matches = whole_matcher("|".join(f"orders-of-region-{number}" for number in range(80)))
    assert matches("orders-of-region-7")
    assert not matches("orders-of-region-80")


def test_a_name_that_was_matched_costs_nothing_again():
    matches = whole_matcher("(?:.*x)*y")
    assert matches.cost("abc") == 3 * matches.size
    assert not matches("abc")
    assert matches.cost("abc") == 0
