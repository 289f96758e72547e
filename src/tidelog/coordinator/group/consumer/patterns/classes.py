"""Sets of characters: in brackets, and by their names after a backslash."""

from tidelog.coordinator.group.consumer.patterns.reader import Reader
from tidelog.coordinator.group.consumer.patterns.syntax import (
    ALPHABET,
    CONTROLS,
    NONE,
    PERL,
    POSIX,
    UNICODE,
    PatternProblem,
)

_BAD_RANGE = "invalid character class range"
_BAD_ESCAPE = "invalid escape sequence"


def parse_class(reader: Reader) -> frozenset[str]:
    """What follows an opening bracket, with the closing one."""
    is_negated = reader.take("^")
    chars = NONE
    is_first = True
    while is_first or reader.peek != "]":
        if reader.is_at_end:
            raise PatternProblem("missing closing ]")
        chars |= _item(reader)
        is_first = False
    reader.next()
    return ALPHABET - chars if is_negated else chars


def _item(reader: Reader) -> frozenset[str]:
    named = reader.match(r"\[:(\^?)([a-z]+):\]")
    if named is not None:
        return _named(POSIX, named[1], is_negated=bool(named[0]))
    if reader.take("\\"):
        found = escaped_set(reader)
        return _range(reader, read_char(reader)) if found is None else found
    return _range(reader, reader.next())


def _range(reader: Reader, low: str) -> frozenset[str]:
    if reader.match(r"-(?!\])") is None:
        return frozenset(low) & ALPHABET
    if reader.is_at_end:
        raise PatternProblem("missing closing ]")
    high = read_char(reader) if reader.take("\\") else reader.next()
    if high < low:
        raise PatternProblem(_BAD_RANGE)
    return frozenset(char for char in ALPHABET if low <= char <= high)


def escaped_set(reader: Reader) -> frozenset[str] | None:
    """A set that a letter after a backslash stands for; None where it stands for a character."""
    letter = reader.peek
    if letter.lower() in PERL and letter:
        reader.next()
        return _named(PERL, letter.lower(), is_negated=letter.isupper())
    if letter not in ("p", "P"):
        return None
    reader.next()
    name = reader.match(r"(?:([A-Za-z])|\{(\^?)([A-Za-z_]+)\})")
    if name is None:
        raise PatternProblem(_BAD_RANGE)
    return _named(UNICODE, name[0] or name[2], is_negated=(letter == "P") != bool(name[1]))


def _named(sets: dict[str, frozenset[str]], name: str, *, is_negated: bool) -> frozenset[str]:
    chars = sets.get(name)
    if chars is None:
        raise PatternProblem(_BAD_RANGE)
    return ALPHABET - chars if is_negated else chars


def read_char(reader: Reader) -> str:
    """The character that what follows a backslash stands for. There are no references back."""
    octal = reader.match(r"(0[0-7]{0,2}|[1-7][0-7]{1,2})")
    if octal is not None:
        return chr(int(octal[0], 8))
    number = reader.match(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})")
    if number is not None:
        return _char(int(number[0] or number[1], 16))
    if reader.is_at_end:
        raise PatternProblem("trailing backslash at end of expression")
    char = reader.next()
    if char in CONTROLS:
        return CONTROLS[char]
    if char.isalnum():
        raise PatternProblem(_BAD_ESCAPE)
    return char


def _char(number: int) -> str:
    if number > 0x10FFFF:
        raise PatternProblem(_BAD_ESCAPE)
    return chr(number)
