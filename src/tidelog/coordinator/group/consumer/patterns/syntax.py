"""The nodes of a pattern, and the sets of characters that have names. A set holds only what a topic's name may hold."""

import string
from enum import Enum
from typing import NamedTuple


class PatternProblem(ValueError):
    """What is wrong with a pattern, in RE2's words."""


LETTERS = frozenset(string.ascii_letters)
DIGITS = frozenset(string.digits)
WORD = LETTERS | DIGITS | {"_"}
ALPHABET = WORD | {".", "-"}
NONE: frozenset[str] = frozenset()


class Chars(NamedTuple):
    """One character of the set."""

    chars: frozenset[str]


class Place(Enum):
    """An assertion about where one is in the name, which has one line."""

    START = "start"
    END = "end"
    BOUNDARY = "boundary"
    NO_BOUNDARY = "no boundary"


class Sequence(NamedTuple):
    parts: "tuple[Node, ...]"


class Either(NamedTuple):
    parts: "tuple[Node, ...]"


class Repeat(NamedTuple):
    """`most` is None where there is no end."""

    part: "Node"
    least: int
    most: int | None


Node = Chars | Place | Sequence | Either | Repeat

PERL = {"d": DIGITS, "s": NONE, "w": WORD}
POSIX = {
    "alnum": LETTERS | DIGITS,
    "alpha": LETTERS,
    "ascii": ALPHABET,
    "blank": NONE,
    "cntrl": NONE,
    "digit": DIGITS,
    "graph": ALPHABET,
    "lower": frozenset(string.ascii_lowercase),
    "print": ALPHABET,
    "punct": frozenset("._-"),
    "space": NONE,
    "upper": frozenset(string.ascii_uppercase),
    "word": WORD,
    "xdigit": frozenset(string.hexdigits),
}
UNICODE = {
    "Any": ALPHABET,
    "L": LETTERS,
    "Lu": POSIX["upper"],
    "Ll": POSIX["lower"],
    "Latin": LETTERS,
    "N": DIGITS,
    "Nd": DIGITS,
    "P": POSIX["punct"],
    "Pc": frozenset("_"),
    "Pd": frozenset("-"),
    "Po": frozenset("."),
    "Common": ALPHABET - LETTERS,
    **dict.fromkeys(("C", "Cc", "Lm", "Lo", "Lt", "M", "S", "Sc", "Sm", "Z", "Zs", "Greek", "Cyrillic", "Han"), NONE),
}
"""Of Unicode's classes those that clients use; what is in them beyond the alphabet does not matter."""
PLACES = {"A": Place.START, "z": Place.END, "b": Place.BOUNDARY, "B": Place.NO_BOUNDARY}
CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def single(char: str, *, folds: bool) -> Chars:
    """The character, with `folds` in either case."""
    return Chars(folded(frozenset(char)) & ALPHABET if folds else frozenset(char) & ALPHABET)


def folded(chars: frozenset[str]) -> frozenset[str]:
    return chars | {char.swapcase() for char in chars}
