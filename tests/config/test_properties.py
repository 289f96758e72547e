"""Java's properties format, against examples of its specification and against a writer of our own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config import properties
from tidelog.errors import InvalidOption


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b c ", {"a": "b c "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("  # no\n! neither\n\na=1", {"a": "1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\ b\\=c=d=e", {"a b=c": "d=e"}),
        ("a=\\u00e9\\t\\z", {"a": "é\tz"}),
        ("a=1\na=2", {"a": "2"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("a=x # not a comment", {"a": "x # not a comment"}),
    ],
)
def test_the_format(text, expected):
    assert properties.parse(text) == expected


def test_a_broken_escape_is_refused():
    with pytest.raises(InvalidOption, match="four hexadecimal digits"):
        properties.parse("a=\\u12")


_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


def _by_code(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" if ord(char) < 0x10000 and not char.isalnum() else char for char in text)


@given(st.dictionaries(_TEXT, _TEXT, max_size=5))
def test_what_is_written_reads_back(pairs):
    assert properties.parse(properties.text(pairs)) == pairs


@given(st.dictionaries(_TEXT.filter(bool), _TEXT, max_size=5))
def test_what_is_written_by_code_points_reads_back(pairs):
    lines = [f"{_by_code(key)} = {_by_code(value)}" for key, value in pairs.items()]
    assert properties.parse("\n".join(lines)) == pairs


def test_plain_values_are_written_plainly():
    assert properties.text({"log.dirs": "/a b/c", "listeners": "A://:1"}) == "log.dirs=/a b/c\nlisteners=A://:1\n"
