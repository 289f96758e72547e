"""One Spark session and one cluster for the tests of a file; Spark's JVM ends with them."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tidelog.testing import Cluster

JVM_ENDS_WITHIN_S = 60


@pytest.fixture(scope="module")
def tides() -> Iterator[Cluster]:
    """Three brokers in this process."""
    with Cluster(brokers=3) as running:
        yield running


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = (
            SparkSession.builder.appName("tidelog tests")
            .master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.sql.shuffle.partitions", 1)
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.log.level", "OFF")
            .getOrCreate()
        )
        gateway = SparkContext._gateway
        try:
            yield session
        finally:
            session.stop()
            _end(gateway)
            SparkContext._gateway = SparkContext._jvm = None


def _end(gateway: Any) -> None:
    """The JVM ends when its standard input does."""
    jvm = gateway.proc
    gateway.shutdown()
    jvm.stdin.close()
    jvm.wait(JVM_ENDS_WITHIN_S)
