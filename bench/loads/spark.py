"""PySpark on two cores, with Spark's own Kafka connector beside Tidelog's source and sink."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.sides import ROOT


def connector() -> str:
    """The connector's jars, with commas between them."""
    given = os.environ.get("TIDELOG_SPARK_LIBS")
    folders = [Path(given)] if given else sorted((ROOT / ".cache" / "spark").glob("*/libs"))
    jars = [str(jar) for folder in folders for jar in folder.glob("*.jar")]
    if not jars:
        raise RuntimeError("the jars of Spark's Kafka connector are missing: run scripts/setup bench")
    return ",".join(jars)


@contextmanager
def session() -> Iterator[Any]:
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession

    running = (
        SparkSession.builder.appName("tidelog bench")
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.jars", connector())
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        yield running
    finally:
        running.stop()
