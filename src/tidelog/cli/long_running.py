"""Commands that run for long: SIGTERM stops them as Ctrl-C does, and a line shows their progress."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_INTERVAL_S = 10.0
Show = Callable[[str], None]


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt in the context when SIGTERM arrives, so that one handler serves both."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def progress_line() -> Iterator[Show]:
    """Yield a function that shows a line on stderr: redrawn on a terminal, every 10 s elsewhere.

    It is on stderr so that stdout has only the result.
    """
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
