"""Runs tasks in several processes and returns results in order, so that the same command always prints the same."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from signal import SIG_DFL, SIGINT, SIGTERM, signal
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_in_order(
    work: Callable[[Task], Result], tasks: Iterator[Task], workers: int, deadline: float | None = None
) -> Iterator[Result]:
    """The result of each task, in the order of the tasks; no task is started after the deadline (monotonic seconds)."""
    due = _before_deadline(tasks, deadline)
    if workers == 1:
        yield from map(work, due)
        return
    pool = ProcessPoolExecutor(workers, initializer=_end_when_interrupted)
    try:
        running = [pool.submit(work, task) for task in islice(due, 2 * workers)]
        while running:
            yield running.pop(0).result()
            running.extend(pool.submit(work, task) for task in islice(due, 1))
    except BrokenProcessPool:  # Ctrl-C reached the workers before this process
        raise KeyboardInterrupt from None
    finally:
        pool.shutdown(cancel_futures=True)


def _end_when_interrupted() -> None:
    """Let signals end a worker silently; the parent process handles and reports the interrupt."""
    for each in (SIGINT, SIGTERM):
        signal(each, SIG_DFL)


def _before_deadline(tasks: Iterator[Task], deadline: float | None) -> Iterator[Task]:
    for task in tasks:
        if deadline is not None and time.monotonic() >= deadline:
            return
        yield task
