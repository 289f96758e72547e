"""What the tests of Spark share: one session with the jars of Spark's own connector, one cluster in this process, one
broker of Tidelog and one of Kafka. All of them serve until the last test; a test takes topics and groups of its own
(`records.unique`), and one that kills or alters brokers takes a cluster of its own.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests import jvm
from tests.compatibility.differential import brokers, secured
from tests.spark import beside, object_store, records
from tests.spark.settings import QUICK, SETTINGS, configured, end
from tests.spark.steps import Steps
from tidelog.shell.supervisor import Supervisor
from tidelog.shell.transport import Admin
from tidelog.testing import Cluster

ROOT = Path(__file__).parent.parent.parent

# Each Python worker of Spark would compile what it imports; the first one now leaves its bytecode to the others.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.fixture(scope="session")
def tides() -> Iterator[Cluster]:
    """Three brokers in this process."""
    with Cluster(brokers=3) as running:
        yield running


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    """Three broker processes, for tests that kill one and start it again."""
    folder = tmp_path_factory.mktemp("cluster")
    with Supervisor(folder, brokers=3, port=0, overrides={"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def spark_home() -> Iterator[None]:
    """All Spark of the tests starts from one folder."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in jvm.spark_environment().items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def connector() -> str:
    """The jars of Spark's own Kafka connector, with commas between them."""
    folder = os.environ.get("TIDELOG_SPARK_LIBS")
    return _jars([Path(folder)] if folder else sorted((ROOT / ".cache" / "spark").glob("*/libs")))


@pytest.fixture(scope="session")
def s3a() -> str:
    """The jars of Hadoop's file system for object stores."""
    return _jars(sorted((ROOT / ".cache" / "s3").glob("*/libs")))


def _jars(folders: list[Path]) -> str:
    jars = [str(jar) for each in folders for jar in each.glob("*.jar")]
    if not jars:
        pytest.fail("jars of Spark or Hadoop are missing: run scripts/setup test")
    return ",".join(jars)


@pytest.fixture(scope="session")
def bucket(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a bucket in an object store, and the session can reach it."""
    with object_store.running(tmp_path_factory.mktemp("s3") / "log") as url:
        for name, value in object_store.settings(url).items():
            spark._jsc.hadoopConfiguration().set(name, value)
        yield f"s3a://{object_store.BUCKET}"


@pytest.fixture(scope="session")
def spark(connector: str, s3a: str, spark_home: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session of all tests. A test that sets its configuration does so through `conf`. That Tidelog's source and
    sink need no jar is proved by `sink_query`, the driver of `test_sink_kills`."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    settings = {**SETTINGS, "spark.jars": f"{connector},{s3a}", "spark.sql.warehouse.dir": warehouse}
    conf = SparkConf().setAll(settings.items())
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    gateway = SparkContext._gateway
    try:
        yield session
    finally:
        session.stop()
        end(gateway)
        SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture
def conf(spark: Any) -> Iterator[Callable[[str, str], None]]:
    """`conf(name, value)` sets an option of the session for the time of the test."""
    with ExitStack() as changes:
        yield lambda name, value: changes.enter_context(configured(spark, name, value))


@pytest.fixture(scope="session")
def tidelog_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One broker process of Tidelog with the topics of `beside`."""
    with brokers.tidelog(tmp_path_factory.mktemp("tidelog") / "data", options=QUICK) as port:
        yield _filled(port)


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory, kafka_libs: str) -> Iterator[str]:
    """A real Kafka with the topics of `beside`."""
    with brokers.kafka(tmp_path_factory.mktemp("kafka") / "data", kafka_libs, options=QUICK) as port:
        yield _filled(port)


@pytest.fixture(params=["tidelog", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The one broker of Tidelog, then that of Kafka."""
    address: str = request.getfixturevalue(f"{request.param}_broker")
    return address


@pytest.fixture(scope="session")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory, kafka_libs: str) -> Iterator[tuple[dict[str, int], Path]]:
    """A real Kafka that wants TLS and SASL: its ports by protocol, and the certificate that a client is to trust."""
    with secured.kafka(tmp_path_factory.mktemp("secured"), kafka_libs) as running:
        yield running


@pytest.fixture(scope="session")
def steps() -> Iterator[Steps]:
    """Starts the processes of `sink_steps`."""
    with Steps() as running:
        yield running


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A topic of three partitions for one test."""
    return records.make_topic(bootstrap, 3)


def _filled(port: int) -> str:
    from tidelog.spark.writing import ledger

    address = f"127.0.0.1:{port}"
    beside.fill(address)
    with Admin(address) as admin:  # as a query does before its first task, which else looks for it for long
        ledger.create(admin)
    return address
