"""Answers that are made in slices: by a generator that yields where other inputs may be handled, and returns them."""

from collections.abc import Callable, Generator, Iterable
from itertools import islice
from types import GeneratorType
from typing import Any, TypeVar

SLICE = 1000
"""Entries of an answer between two pauses: one to three milliseconds."""

From = TypeVar("From")
Made = TypeVar("Made")
Sliced = Generator[Any, Any, Made]


def made_of(
    items: Iterable[From], make: Callable[[From], Made | None], size: int = SLICE
) -> Generator[None, None, list[Made]]:
    """What `make` returns for each item, without None. `items` must not change meanwhile."""
    made: list[Made] = []
    remaining = iter(items)
    while portion := list(islice(remaining, size)):
        made += [found for item in portion if (found := make(item)) is not None]
        if len(portion) == size:
            yield
    return made


def kept_of(items: list[From], is_kept: Callable[[From], bool]) -> Generator[None, None, list[From]]:
    """The items that pass the test."""
    return (yield from made_of(items, lambda item: item if is_kept(item) else None))


def ended(made: Any) -> Generator[Any, Any, Any]:
    """What it returns at its end, if it is a generator; otherwise itself."""
    return (yield from made) if type(made) is GeneratorType else made


def all_of(parts: Iterable[Any]) -> Generator[Any, Any, list[Any]]:
    """The parts of an answer, of which some are still to be made."""
    made = list(parts)
    for index, part in enumerate(made):
        made[index] = yield from ended(part)
    return made


def begun(made: Any) -> Any:
    """What it returns, if it is no generator or one that ends within its first slice; otherwise the generator."""
    if type(made) is GeneratorType:
        try:
            next(made)
        except StopIteration as done:
            return done.value
    return made
