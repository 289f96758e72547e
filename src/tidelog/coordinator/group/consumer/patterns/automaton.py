"""Matching of whole names in time linear in them: all ways through the pattern are followed at once (Thompson), and the
steps that were made are remembered (a lazy DFA)."""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.coordinator.group.consumer.patterns.syntax import (
    WORD,
    Chars,
    Either,
    Node,
    PatternProblem,
    Place,
    Repeat,
    Sequence,
)

MAX_STATES = 2000
MAX_STEPS_KEPT = 10_000
ACCEPT = -1
OUTSIDE = ""
"""What stands before a name and after it."""


class _State(NamedTuple):
    """Where one may go from here: over a character, or over none, if `place` allows. ACCEPT is the end."""

    chars: frozenset[str] | None
    place: Place | None
    following: tuple[int, ...]


States = frozenset[int]


class Automaton:
    """`matches` tells whether the whole name is one that the pattern describes."""

    def __init__(self, states: list[_State], start: int) -> None:
        self._states = states
        self._start: States = frozenset({start})
        self._steps: dict[tuple[States, str, str], States] = {}

    def __repr__(self) -> str:
        return f"<Automaton of {len(self._states)} states>"

    def matches(self, name: str) -> bool:
        states, before = self._start, OUTSIDE
        for char in name:
            states = self._step(states, before, char)
            if not states:
                return False
            before = char
        return ACCEPT in self._reached(states, before, OUTSIDE)

    def _step(self, states: States, before: str, char: str) -> States:
        key = states, before, char
        step = self._steps.get(key)
        if step is None:
            if len(self._steps) >= MAX_STEPS_KEPT:
                self._steps.clear()
            step = self._steps[key] = self._over(self._reached(states, before, char), char)
        return step

    def _over(self, states: Iterable[int], char: str) -> States:
        found: set[int] = set()
        for number in states:
            state = self._states[number] if number != ACCEPT else None
            if state is not None and state.chars is not None and char in state.chars:
                found.update(state.following)
        return frozenset(found)

    def _reached(self, states: States, before: str, after: str) -> set[int]:
        """Where one gets without a character, between these two."""
        reached, waiting = set(states), list(states)
        while waiting:
            number = waiting.pop()
            if number == ACCEPT or not self._passes(self._states[number], before, after):
                continue
            for following in self._states[number].following:
                if following not in reached:
                    reached.add(following)
                    waiting.append(following)
        return reached

    def _passes(self, state: _State, before: str, after: str) -> bool:
        if state.chars is not None:
            return False
        return state.place is None or _holds(state.place, before, after)


def _holds(place: Place, before: str, after: str) -> bool:
    if place == Place.START:
        return before == OUTSIDE
    if place == Place.END:
        return after == OUTSIDE
    return ((before in WORD) != (after in WORD)) == (place == Place.BOUNDARY)


def build(node: Node) -> Automaton:
    """PatternProblem where it would be too large."""
    states: list[_State] = []
    start = _build(node, ACCEPT, states)
    return Automaton(states, start)


def _add(states: list[_State], state: _State) -> int:
    if len(states) >= MAX_STATES:
        raise PatternProblem("expression is too large")
    states.append(state)
    return len(states) - 1


def _build(node: Node, following: int, states: list[_State]) -> int:
    """States for the node, from behind; the first of them."""
    if isinstance(node, Chars):
        return _add(states, _State(node.chars, None, (following,)))
    if isinstance(node, Place):
        return _add(states, _State(None, node, (following,)))
    if isinstance(node, Sequence):
        for part in reversed(node.parts):
            following = _build(part, following, states)
        return following if node.parts else _add(states, _State(None, None, (following,)))
    if isinstance(node, Either):
        firsts = tuple(_build(part, following, states) for part in node.parts)
        return _add(states, _State(None, None, firsts))
    return _build_repeat(node, following, states)


def _build_repeat(node: Repeat, following: int, states: list[_State]) -> int:
    if node.most is None:
        following = _build_loop(node.part, following, states)
    else:
        end = following
        for _ in range(node.most - node.least):
            following = _add(states, _State(None, None, (_build(node.part, following, states), end)))
    for _ in range(node.least):
        following = _build(node.part, following, states)
    return following


def _build_loop(part: Node, following: int, states: list[_State]) -> int:
    loop = _add(states, _State(None, None, ()))
    first = _build(part, loop, states)
    states[loop] = _State(None, None, (first, following))
    return loop
