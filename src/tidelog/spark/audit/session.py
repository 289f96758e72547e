"""A Spark session that maps the audit's functions over pieces of logs.

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
from tidelog.spark.audit.spreading import spread

APP = "tidelog audit"


def on(context: SparkContext) -> Run:
    """Carries tasks out on the executors of this context."""

    def run(function: Callable[[Any], Any], items: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
        places = spread(sizes, context.defaultParallelism)
        if not places:
            return []
        tasks = [(function, [items[place] for place in own]) for own in places]
        found = context.parallelize(tasks, len(tasks)).map(_carry_out).collect()
        answers = {
            place: answer
            for own, told in zip(places, found, strict=True)
            for place, answer in zip(own, told, strict=True)
        }
        return [answers[place] for place in range(len(items))]

    return run


def _carry_out(task: tuple[Callable[[Any], Any], Sequence[Any]]) -> list[Any]:
    function, items = task
    return [function(item) for item in items]


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
