"""A Spark session that maps the audit's functions over pieces of logs: a task for each, largest first.

The driver sends file names and offsets and gets digests; no byte of a log passes through it.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidelog.shell.auditing.run import Run

APP = "tidelog audit"


def on(context: SparkContext) -> Run:
    """Carries tasks out on the executors of this context."""

    def run(function: Callable[[Any], Any], items: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
        order = sorted(range(len(items)), key=lambda place: -sizes[place])
        if not order:
            return []
        found = context.parallelize([items[place] for place in order], len(order)).map(function).collect()
        answers = dict(zip(order, found, strict=True))
        return [answers[place] for place in range(len(items))]

    return run


@contextmanager
def running(master: str) -> Iterator[Run]:
    """With a session of its own, or the one that there is."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    before = SparkSession.getActiveSession()
    session = before or (
        SparkSession.builder.appName(APP)
        .master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        yield on(session.sparkContext)
    finally:
        if before is None:
            session.stop()
