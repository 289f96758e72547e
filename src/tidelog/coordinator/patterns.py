"""Patterns that clients send, in RE2's syntax and, as in RE2, matched in linear time: with Python's backtracking a
pattern of a dozen characters could block the broker for hours. Kafka uses re2j; errors have its wording."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

MAX_BYTES = 1 << 17
"""Memory limit of a compiled pattern."""
MAX_LENGTH = 2000
"""In characters. With both limits a pattern takes at most some 25 ms to compile, or for one name."""
MEMORY = 20_000
"""Names of which a pattern keeps whether they match: the next time, only new topics take time."""
PATTERNS = 64

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


class Matcher:
    """Decides whether a whole text matches a pattern."""

    __slots__ = ("_known", "_match", "size")

    def __init__(self, match: Callable[[str], Any], size: int) -> None:
        """`size` is the number of instructions: what a character may cost."""
        self._match = match
        self._known: dict[str, bool] = {}
        self.size = size

    def __call__(self, text: str) -> bool:
        found = self._known.get(text)
        if found is None:
            found = self._match(text) is not None
            if len(self._known) < MEMORY:
                self._known[text] = found
        return found

    def cost(self, text: str) -> int:
        """Instructions that a match may take: 20 ns each, but most patterns take far fewer."""
        return 0 if text in self._known else self.size * len(text)


@lru_cache(maxsize=PATTERNS)
def whole_matcher(pattern: str) -> Matcher:
    """Raises PatternProblem if the pattern is invalid."""
    if len(pattern) > MAX_LENGTH:
        raise PatternProblem("expression is too large")
    import re2  # imported here because few brokers need it

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise PatternProblem(_problem_text(error)) from None
    return Matcher(compiled.fullmatch, compiled.programsize)


def _problem_text(error: Exception) -> str:
    raw = error.args[0] if error.args else ""
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    known = next((known for known in _AS_KAFKA if text.startswith(known)), None)
    return _AS_KAFKA[known] if known else text.partition(":")[0]
