"""A Spark session for pipelines: with the settings they need, and with the JVM's output in a file."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
NEEDED: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,  # transformWithState supports no other
}
"""Settings that your own session needs for the pipelines as well."""
CHOSEN: Mapping[str, str] = {
    "spark.app.name": "tidelog pipeline",
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.redaction.options.regex": "(?i)url|password|jaas|keystore",  # options of sources and sinks in plans
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",  # a port could get connections that are meant for others
}
LOOPBACK: Mapping[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Only where the driver's machine has all executors; those of a cluster could not connect to it."""
ONE_MACHINE = re.compile(r"local(-cluster)?(\[.*\])?")
"""Masters whose executors are on the driver's machine."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""spark-submit has started this process, and its JVM listens on this port."""
LOUD = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark that write errors to stderr although they are raised as well."""
ENDS_WITHIN_S = 30


@contextmanager
def session(log: Path, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A session with these settings over CHOSEN; its JVM has ended afterwards, and its output is appended to `log`.
    Under spark-submit the JVM, its output and the settings that it was given are spark-submit's."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    given = settings or {}
    submitted = launch_gateway() if SUBMITTED in os.environ else None
    if submitted is not None:
        given = {**dict(SparkConf(_jvm=submitted.jvm).getAll()), **given}
    chosen = chosen_settings(log, given)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", chosen.get("spark.pyspark.python", sys.executable))
    for name in LOUD:
        PySparkLogger.getLogger(name).disabled = True
    log.parent.mkdir(parents=True, exist_ok=True)
    conf = SparkConf().setAll(chosen.items())
    with log.open("ab") as output:
        gateway = submitted or launch_gateway(conf, {"stdout": output, "stderr": output})
    try:
        spark = SparkSession(SparkContext(gateway=gateway, conf=conf))
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        _end(gateway)


def chosen_settings(log: Path, given: Mapping[str, str]) -> dict[str, str]:
    """All settings of a session; the given ones take precedence."""
    chosen = {**CHOSEN, **NEEDED, "spark.sql.warehouse.dir": str(log.parent.resolve() / "warehouse"), **given}
    return {**LOOPBACK, **chosen} if ONE_MACHINE.fullmatch(chosen["spark.master"]) else chosen


def _end(gateway: Any) -> None:
    """The JVM ends when its standard input does; that of spark-submit ends with this process."""
    gateway.shutdown()
    if gateway.proc is None:
        return
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
