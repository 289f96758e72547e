"""What the tests of Spark share: one session with the jars of Spark's own connector, one cluster in this process, one
broker of Tidelog and one of Kafka. All of them serve until the last test; a test takes topics and groups of its own
(`records.unique`), and one that kills or alters brokers takes a cluster of its own.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.differential import brokers, secured
from tests.spark import beside, records
from tests.spark.settings import QUICK, SETTINGS, configured
from tests.spark.steps import Steps
from tidelog.shell.supervisor import Supervisor
from tidelog.shell.transport import Admin
from tidelog.testing import Cluster

ROOT = Path(__file__).parent.parent.parent
JVM_ENDS_WITHIN_S = 180

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
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """PySpark as it is installed, without its pyspark.zip: every Python process of Spark would import from there first,
    and compile what it imports, which takes half a second each time."""
    found = find_spec("pyspark")
    with pytest.MonkeyPatch.context() as patch:
        if found is not None and found.origin is not None:
            home = tmp_path_factory.mktemp("spark")
            for name in ("bin", "jars"):
                (home / name).symlink_to(Path(found.origin).parent / name)
            patch.setenv("SPARK_HOME", str(home))
        yield


@pytest.fixture(scope="session")
def connector() -> str:
    """The jars of Spark's own Kafka connector, with commas between them."""
    folder = os.environ.get("TIDELOG_SPARK_LIBS")
    folders = [Path(folder)] if folder else sorted((ROOT / ".cache" / "spark").glob("*/libs"))
    jars = [str(jar) for each in folders for jar in each.glob("*.jar")]
    if not jars:
        pytest.fail("the jars of Spark's Kafka connector are missing: run scripts/setup test")
    return ",".join(jars)


@pytest.fixture(scope="session")
def spark(connector: str, spark_home: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session of all tests. A test that sets its configuration does so through `conf`. That Tidelog's source and
    sink need no jar is proved by `sink_query`, the driver of `test_sink_kills`."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        warehouse = str(tmp_path_factory.mktemp("warehouse"))
        settings = {**SETTINGS, "spark.jars": connector, "spark.sql.warehouse.dir": warehouse}
        conf = SparkConf().setAll(settings.items())
        session = SparkSession.builder.config(conf=conf).getOrCreate()
        gateway = SparkContext._gateway
        try:
            yield session
        finally:
            session.stop()
            _end(gateway)
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


def _end(gateway: Any) -> None:
    """The JVM ends when its standard input does."""
    jvm = gateway.proc
    gateway.shutdown()
    jvm.stdin.close()
    jvm.wait(JVM_ENDS_WITHIN_S)
