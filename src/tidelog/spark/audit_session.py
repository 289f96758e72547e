"""A Spark session that maps the replica audit's functions over pieces of logs (`audit/io/run.py`).

The driver sends file names and offsets and gets digests; no byte of a log passes through it.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelog.audit.io.run import Run

APP = "tidelog audit"
MASTERS = re.compile(r"local(-cluster)?(\[.*\])?|(spark|k8s|mesos)://.+|yarn")

_PYTHON_ERROR = re.compile(r"(\w+\.)*\w*(Error|Exception|Interrupt)\b.*: ")


class Failed(Exception):
    """Spark does not start, or gives up; the reason in one line."""


def on(context: SparkContext) -> Run:
    """Runs tasks on the executors of this context."""

    def run(function: Callable[[Any], Any], items: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
        places = spread(sizes, context.defaultParallelism)
        if not places:
            return []
        tasks = [(function, [items[place] for place in own]) for own in places]
        found = context.parallelize(tasks, len(tasks)).map(_carry_out).collect()
        answers = {
            place: answer
            for own, answers in zip(places, found, strict=True)
            for place, answer in zip(own, answers, strict=True)
        }
        return [answers[place] for place in range(len(items))]

    return run


def _carry_out(task: tuple[Callable[[Any], Any], Sequence[Any]]) -> list[Any]:
    function, items = task
    return [function(item) for item in items]


@contextmanager
def running(master: str) -> Iterator[Run]:
    """Uses the active session, or one of its own. Raises Failed if Spark fails."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    before = SparkSession.getActiveSession()
    if before is None and not MASTERS.fullmatch(master):
        raise Failed(f"{master!r} is not a Spark master; expected local[*], spark://HOST:PORT, yarn or k8s://HOST:PORT")
    session = None
    try:
        session = before or _session(master)
        yield on(session.sparkContext)
    except (Py4JError, PySparkException) as error:
        raise Failed(_reason(error)) from None
    finally:
        if session is not None and before is None:
            session.stop()


def _session(master: str) -> SparkSession:
    return (
        SparkSession.builder.appName(APP)
        .master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.python.unix.domain.socket.enabled", "true")  # a port could get connections meant for others
        .getOrCreate()
    )


def _reason(error: Exception) -> str:
    """The cause: the last line of a Python traceback in a task, otherwise Java's first error."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if _PYTHON_ERROR.match(line) and not line.startswith(("java", "org."))]
    java = [line for line in lines if "Exception" in line and not line.startswith("at ")]
    return next(iter([*python[-1:], *java, *lines]), type(error).__name__).rstrip(".")


TASKS_PER_CORE = 4
TASK_BYTES = 256 * 1024 * 1024
OPENING_BYTES = 256 * 1024
"""Opening a piece takes as long as reading this many bytes."""


def spread(sizes: Sequence[int], cores: int) -> list[list[int]]:
    """The indexes of the pieces of each task: the largest pieces first, each to the task with the least load."""
    total = sum(sizes) + OPENING_BYTES * len(sizes)
    tasks = min(len(sizes), max(cores * TASKS_PER_CORE, -(-total // TASK_BYTES)))
    heap = [(0, task) for task in range(tasks)]
    found: list[list[int]] = [[] for _ in range(tasks)]
    for place in sorted(range(len(sizes)), key=lambda each: -sizes[each]):
        load, task = heappop(heap)
        found[task].append(place)
        heappush(heap, (load + sizes[place] + OPENING_BYTES, task))
    return found
