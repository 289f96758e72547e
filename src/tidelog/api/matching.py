"""Matching a client's pattern against many names, with pauses in between.

A coordinator must not pause: the handler of a request matches before, and the coordinator finds what matches in the
pattern's memory.
"""

from collections.abc import Generator, Iterable

from tidelog.coordinator.patterns import Matcher

INSTRUCTIONS_AT_ONCE = 200_000
"""Of a pattern: some four milliseconds at worst."""


def match_all(matches: Matcher, names: Iterable[str]) -> Generator[None, None, None]:
    cost = 0
    for name in list(names):
        cost += matches.cost(name)
        if cost > INSTRUCTIONS_AT_ONCE:
            cost = 0
            yield
        matches(name)
