"""Commands that run until they are interrupted end in order, by whichever signal they are told to."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PLAIN_EVERY_S = 10.0
Show = Callable[[str], None]


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends what goes on inside as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
