"""The types of options: how a value is parsed from text and formatted.

Parsing follows Kafka: surrounding blanks are removed, booleans are `true` or `false` in any case, a list is split at
commas. A parser raises ValueError; `option.py` turns it into an error that names the option.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

_TRUTH = {"true": True, "false": False}


class OptionType(NamedTuple):
    """`code` is the type's number in DescribeConfigs; `what` completes the sentence 'must be …'."""

    name: str
    code: int
    expected: str
    parse: Callable[[str], Any]


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUTH:
        raise ValueError(text)
    return _TRUTH[text.lower()]


def _whole(bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        digits = text[1:] if text[:1] in {"+", "-"} else text
        if not (digits.isascii() and digits.isdecimal()) or not -limit <= int(text) < limit:
            raise ValueError(text)
        return int(text)

    return parse


def _names(text: str) -> list[str]:
    """A repeated name counts once."""
    return list(dict.fromkeys(item.strip() for item in text.split(","))) if text else []


BOOLEAN = OptionType("boolean", 1, "true or false", _boolean)
STRING = OptionType("string", 2, "text", str)
INT = OptionType("int", 3, "a 32-bit integer", _whole(32))
SHORT = OptionType("short", 4, "a 16-bit integer", _whole(16))
LONG = OptionType("long", 5, "a 64-bit integer", _whole(64))
DOUBLE = OptionType("double", 6, "a number", float)
LIST = OptionType("list", 7, "names separated by commas", _names)
CLASS = OptionType("class", 8, "a class name", str)
PASSWORD = OptionType("password", 9, "text", str)


def format_value(value: Any) -> str | None:
    """A value as Kafka prints it in DescribeConfigs; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value).replace("e+", "E").replace("e", "E")
    if isinstance(value, list):
        return ",".join(value)
    return str(value)
