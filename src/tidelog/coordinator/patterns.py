"""Patterns that clients send, in RE2's syntax and, as in RE2, matched in linear time: with Python's backtracking a
pattern of a dozen characters could block the broker for hours. Kafka uses re2j; errors have its wording."""

from collections.abc import Callable
from functools import lru_cache

MAX_BYTES = 1 << 20
"""Memory limit of a compiled pattern."""

_AS_KAFKA = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "invalid character class": "invalid character class range",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "bad repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression is too large",
}


class PatternProblem(Exception):
    """The text is not a valid pattern."""


@lru_cache(maxsize=256)
def whole_matcher(pattern: str) -> Callable[[str], bool]:
    """A function that tells whether a whole text matches the pattern. Raises PatternProblem if it is invalid."""
    import re2  # imported here because few brokers need it

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise PatternProblem(_problem_text(error)) from None
    return lambda text: compiled.fullmatch(text) is not None


def _problem_text(error: Exception) -> str:
    raw = error.args[0] if error.args else ""
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    known = next((known for known in _AS_KAFKA if text.startswith(known)), None)
    return _AS_KAFKA[known] if known else text.partition(":")[0]
