"""Telling a person why a command waits."""

import time
from collections.abc import Callable, Iterable

import click

PATIENCE_MS = 2_000
"""How long a command waits before it says why."""
AGAIN_MS = 30_000
"""How long until the same reason is printed again."""


def clock_ms() -> float:
    return time.monotonic() * 1000


class WaitNotice:
    """`reasons(patience_ms)` are why the client has waited for at least that long; each is printed to stderr, and again
    if it lasts. `clock` returns milliseconds."""

    def __init__(self, reasons: Callable[[int], Iterable[str]], clock: Callable[[], float]) -> None:
        self._reasons = reasons
        self._clock = clock
        self._printed: dict[str, float] = {}

    def __call__(self) -> None:
        moment = self._clock()
        found = list(self._reasons(PATIENCE_MS))
        self._printed = {reason: when for reason, when in self._printed.items() if reason in found}
        for reason in found:
            printed = self._printed.get(reason)
            if printed is None or moment - printed >= AGAIN_MS:
                self._printed[reason] = moment
                click.echo(f"Waiting: {reason}", err=True)
