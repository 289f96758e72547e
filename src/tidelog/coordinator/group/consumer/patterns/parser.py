"""RE2's language, parsed by descent."""

from tidelog.coordinator.group.consumer.patterns.classes import escaped_set, parse_class, read_char
from tidelog.coordinator.group.consumer.patterns.reader import Reader
from tidelog.coordinator.group.consumer.patterns.syntax import (
    ALPHABET,
    PLACES,
    Chars,
    Either,
    Node,
    PatternProblem,
    Place,
    Repeat,
    Sequence,
    folded,
    single,
)

MAX_REPEAT = 1000
MAX_DEPTH = 100
OPERATORS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def parse(pattern: str) -> Node:
    """PatternProblem where it is none."""
    reader = Reader(pattern)
    node = _either(reader, 0)
    if not reader.is_at_end:
        raise PatternProblem("unexpected )")
    return node


def _either(reader: Reader, depth: int) -> Node:
    """Flags that are set within stay set for the alternatives that follow, to the end of the group."""
    if depth > MAX_DEPTH:
        raise PatternProblem("expression nests too deeply")
    folds = reader.folds
    parts = [_sequence(reader, depth)]
    while reader.take("|"):
        parts.append(_sequence(reader, depth))
    reader.folds = folds
    return parts[0] if len(parts) == 1 else Either(tuple(parts))


def _sequence(reader: Reader, depth: int) -> Node:
    parts: list[Node] = []
    is_repeatable = False
    while not reader.is_at_end and reader.peek not in "|)":
        bounds = _operator(reader)
        if bounds is not None:
            if not is_repeatable:
                raise PatternProblem("missing argument to repetition operator")
            _check_no_other(reader)
            parts[-1] = Repeat(parts[-1], *bounds)
            continue
        found = _atom(reader, depth)
        is_repeatable = is_repeatable if not found else True
        parts += found
    return Sequence(tuple(parts))


def _operator(reader: Reader) -> tuple[int, int | None] | None:
    """The bounds of a repetition, whether it is greedy or not being all the same for whole names; None for no
    operator: braces that are none stand for themselves."""
    operator = OPERATORS.get(reader.peek)
    if operator is not None:
        reader.next()
        reader.take("?")
        return operator
    return _braces(reader) if reader.peek == "{" else None


def _braces(reader: Reader) -> tuple[int, int | None] | None:
    text = reader.match(r"\{(\d+)(,?)(\d*)\}")
    if text is None:
        return None
    least, comma, most = text
    bounds = int(least), int(most) if most else None if comma else int(least)
    if max(bounds[0], bounds[1] or 0) > MAX_REPEAT or (bounds[1] is not None and bounds[1] < bounds[0]):
        raise PatternProblem("bad repetition operator")
    reader.take("?")
    return bounds


def _check_no_other(reader: Reader) -> None:
    if not reader.is_at_end and _operator(reader) is not None:
        raise PatternProblem("invalid nested repetition operator")


def _atom(reader: Reader, depth: int) -> list[Node]:
    """One thing that may be repeated, or nothing where flags are set."""
    char = reader.next()
    if char == "(":
        return _group(reader, depth)
    if char == "[":
        return [Chars(_fold(reader, parse_class(reader)))]
    if char == ".":
        return [Chars(ALPHABET)]
    if char in "^$":
        return [Place.START if char == "^" else Place.END]
    if char == "\\":
        return _escape(reader)
    return [single(char, folds=reader.folds)]


def _fold(reader: Reader, chars: frozenset[str]) -> frozenset[str]:
    return folded(chars) & ALPHABET if reader.folds else chars


def _group(reader: Reader, depth: int) -> list[Node]:
    before = reader.folds
    if reader.take("?"):
        named = reader.match(r"P?<([A-Za-z0-9_]+)>")
        if named is not None:
            if named[0] in reader.names:
                raise PatternProblem("duplicate capture group name")
            reader.names.add(named[0])
        elif not _flags(reader):
            return []
    node = _either(reader, depth + 1)
    if not reader.take(")"):
        raise PatternProblem("missing closing )")
    reader.folds = before
    return [node]


def _flags(reader: Reader) -> bool:
    """Whether the flags are for a group of their own, which follows."""
    flags = reader.match(r"([imsU]*)(?:-([imsU]+))?([:)])")
    if flags is None or (not flags[0] and not flags[1] and flags[2] == ")"):
        raise PatternProblem("invalid or unsupported Perl syntax")
    on, off, end = flags
    reader.folds = ("i" in on or reader.folds) and "i" not in (off or "")
    return end == ":"


def _escape(reader: Reader) -> list[Node]:
    if reader.is_at_end:
        raise PatternProblem("trailing backslash at end of expression")
    if reader.take("Q"):
        return [single(char, folds=reader.folds) for char in reader.until("\\E")]
    place = PLACES.get(reader.peek)
    if place is not None:
        reader.next()
        return [place]
    if reader.take("C"):
        return [Chars(ALPHABET)]
    chars = escaped_set(reader)
    if chars is not None:
        return [Chars(_fold(reader, chars))]
    return [single(read_char(reader), folds=reader.folds)]
