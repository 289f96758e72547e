"""The one way in which tests wait in real time: for a condition, with a deadline, and a message that says for what."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE_S = 90.0
"""Longer than a loaded machine needs for anything that a test waits for; a pass never takes it."""
POLL_S = 0.02


def wait_for(condition: Callable[[], T], what: str, within_s: float = PATIENCE_S) -> T:
    """Return the first truthy value of `condition`; fail with `what` and the last value after `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}; last: {found!r}"
        time.sleep(POLL_S)
    return found


def own_clock(**functions: Any) -> SimpleNamespace:
    """The module `time` with other functions, for one module under test: what threads of other tests call stays."""
    return SimpleNamespace(**{**vars(time), **functions})
