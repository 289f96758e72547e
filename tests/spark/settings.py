"""How the brokers and the session that the tests share are configured."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

QUICK = {
    "log.cleaner.backoff.ms": "100",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
"""The brokers notice soon what is to be compacted, and that a transaction's time is over."""
SETTINGS = {
    "spark.app.name": "tidelog tests",
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    # Spark's default starts a process of the shell for each file that it renames.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.log.level": "OFF",
}


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
