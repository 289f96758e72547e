"""Patterns for names of topics, in RE2's language and, as RE2, in linear time: whoever may join a group may send one,
and Python's own backtracking would let one of a dozen characters hold up the broker for hours.

`syntax` parses a pattern into nodes over the alphabet of topic names, `automaton` matches whole names.
"""

from functools import lru_cache

from tidelog.coordinator.group.consumer.patterns.automaton import Automaton, build
from tidelog.coordinator.group.consumer.patterns.parser import parse
from tidelog.coordinator.group.consumer.patterns.syntax import PatternProblem
from tidelog.errors import ApiError, ErrorCode


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Automaton:
    """ApiError INVALID_REGULAR_EXPRESSION."""
    try:
        return build(parse(pattern))
    except PatternProblem as problem:
        text = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {problem}."
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from problem
