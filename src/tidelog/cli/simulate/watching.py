"""How far a long run is: a line that is redrawn on a terminal, a line now and then in a pipe."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PLAIN_EVERY_S = 10.0

Show = Callable[[str], None]


@contextmanager
def progress() -> Iterator[Show]:
    """On standard error, so that the result alone is on standard output."""
    from sys import stderr

    if stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("starting") as status:
            yield status.update
        return
    told = time.monotonic()

    def show(line: str) -> None:
        nonlocal told
        if time.monotonic() - told >= PLAIN_EVERY_S:
            told = time.monotonic()
            stderr.write(f"{line}\n")
            stderr.flush()

    yield show
