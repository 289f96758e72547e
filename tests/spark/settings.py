"""How the brokers and the session that the tests share are configured."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests import jvm

QUICK = {
    "log.cleaner.backoff.ms": "100",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
"""The brokers notice soon what is to be compacted, and that a transaction's time is over."""
SHORT_JVM = " ".join(jvm.SPARK)
"""For a JVM that lives a minute."""
JVM_ENDS_WITHIN_S = 180
SETTINGS = {
    "spark.app.name": "tidelog tests",
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": SHORT_JVM,
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    # Spark's default starts a process of the shell for each file that it renames.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.log.level": "OFF",
    # A JVM listens once for each Python process that it starts, and fails if anyone else connects: a client of a broker
    # that is gone, for instance, whose port the kernel gave to the JVM.
    "spark.python.unix.domain.socket.enabled": "true",
}


def environment() -> dict[str, str]:
    """That of a process which starts a session of its own."""
    return {**os.environ, "JDK_JAVA_OPTIONS": SHORT_JVM, "SPARK_LOCAL_IP": "127.0.0.1"}


def end(gateway: Any) -> None:
    """The JVM ends when its standard input does."""
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.wait(JVM_ENDS_WITHIN_S)


@contextmanager
def configured(spark: Any, name: str, value: str) -> Iterator[None]:
    """An option of the session has another value meanwhile."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)
