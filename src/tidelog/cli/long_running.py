"""Commands that run until they are interrupted end in order, by whichever signal they are printed_at to."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_INTERVAL_S = 10.0
Show = Callable[[str], None]


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM ends what goes on inside as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def progress_line() -> Iterator[Show]:
    """On standard error, so that the result alone is on standard output."""
    from sys import stderr

    if stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("starting") as status:
            yield status.update
        return
    printed_at = time.monotonic()

    def show(line: str) -> None:
        nonlocal printed_at
        if time.monotonic() - printed_at >= LINE_INTERVAL_S:
            printed_at = time.monotonic()
            stderr.write(f"{line}\n")
            stderr.flush()

    yield show
