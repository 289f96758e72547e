"""One Spark session and one cluster for the tests of a file; Spark's JVM ends with them."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.differential import brokers
from tests.spark import beside
from tidelog.testing import Cluster

ROOT = Path(__file__).parent.parent.parent
JVM_ENDS_WITHIN_S = 180


@pytest.fixture(scope="module")
def tides() -> Iterator[Cluster]:
    """Three brokers in this process."""
    with Cluster(brokers=3) as running:
        yield running


@pytest.fixture(scope="session")
def connector() -> str:
    """The jars of Spark's own Kafka connector, with commas between them."""
    folder = os.environ.get("TIDELOG_SPARK_LIBS")
    folders = [Path(folder)] if folder else sorted((ROOT / ".cache" / "spark").glob("*/libs"))
    jars = [str(jar) for each in folders for jar in each.glob("*.jar")]
    if not jars:
        pytest.fail("the jars of Spark's Kafka connector are missing: run scripts/setup test")
    return ",".join(jars)


@pytest.fixture(scope="module")
def jars() -> str:
    """What Spark loads besides its own; a module that wants `connector` says so."""
    return ""


@pytest.fixture(scope="module")
def spark(jars: str) -> Iterator[Any]:
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
            .config("spark.jars", jars)
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


@pytest.fixture(scope="module", params=["tidelog", "kafka"])
def bootstrap(request: Any, tmp_path_factory: Any) -> Iterator[str]:
    """One broker with the topics of `beside`: Tidelog, then a real Kafka."""
    folder = tmp_path_factory.mktemp(request.param) / "data"
    if request.param == "kafka":
        running = brokers.kafka(folder, request.getfixturevalue("kafka_libs"))
    else:
        running = brokers.tidelog(folder)
    with running as port:
        address = f"127.0.0.1:{port}"
        beside.fill(address)
        yield address


def _end(gateway: Any) -> None:
    """The JVM ends when its standard input does."""
    jvm = gateway.proc
    gateway.shutdown()
    jvm.stdin.close()
    jvm.wait(JVM_ENDS_WITHIN_S)
