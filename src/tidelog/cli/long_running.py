"""Commands that run for long: SIGTERM stops them as Ctrl-C does, and a line shows their progress."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_INTERVAL_S = 10.0
REDRAWN_S = 0.1
Show = Callable[[Callable[[], str]], None]
"""Takes what makes the line: most calls show nothing, and a line may cost more than the work it reports."""


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
            yield _every(REDRAWN_S, status.update, time.monotonic() - REDRAWN_S)
        return

    def printed(line: str) -> None:
        stderr.write(f"{line}\n")
        stderr.flush()

    yield _every(LINE_INTERVAL_S, printed, time.monotonic())


def _every(interval_s: float, put: Callable[[str], None], shown_at: float) -> Show:
    def show(line: Callable[[], str]) -> None:
        nonlocal shown_at
        now = time.monotonic()
        if now - shown_at >= interval_s:
            shown_at = now
            put(line())

    return show
