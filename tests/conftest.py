"""What tests of every part share: Hypothesis profiles, free ports, Kafka's jars and tools, a cluster of processes.

Nothing here skips: what a test needs and the machine lacks is a failure that says how to get it.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import ports

if TYPE_CHECKING:
    from tests.ensemble import Ensemble
    from tidelog.shell.supervisor import Supervisor

ROOT = Path(__file__).parent.parent
KAFKA_VERSION = "4.3.1"

settings.register_profile(
    "ci",
    max_examples=60,
    derandomize=True,  # the same examples on every machine; `--hypothesis-profile=search` looks for new ones
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", settings.get_profile("ci"), max_examples=2000, derandomize=False)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "write down what the scenarios of tests/scenarios tell now"
    parser.addoption("--rewrite-scenarios", action="store_true", help=help_text)


@pytest.fixture(scope="session")
def kafka_libs() -> str:
    """The class path of Apache Kafka 4.3.1 with its tools: `java -cp KAFKA_LIBS org.apache.kafka.tools.…`."""
    folder = Path(os.environ.get("TIDELOG_KAFKA_LIBS") or ROOT / ".cache" / "kafka" / KAFKA_VERSION / "libs")
    if not any(folder.glob("*.jar")):
        pytest.fail(f"Apache Kafka's jars are not in {folder}: run scripts/setup test")
    return f"{folder}/*"


@pytest.fixture(scope="session")
def kafka_tool(kafka_libs: str) -> Callable[..., str]:
    """Runs one of Kafka's own tools: `kafka_tool("TopicCommand", "--list", …, given="", within_s=180)` → its output.

    A name without a package is in org.apache.kafka.tools. An exit code other than 0 is a failure with what it said.
    """

    def run(name: str, *arguments: str, given: str = "", within_s: float = 180) -> str:
        main = name if "." in name else f"org.apache.kafka.tools.{name}"
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", kafka_libs, main, *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=within_s, check=False)
        if done.returncode != 0:
            pytest.fail(f"{name} {' '.join(arguments)} exited with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    return run


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Supervisor]":
    """Three broker processes on free ports, for the tests of one file: `.bootstrap`, `.kill(n)`, `.start_broker(n)`."""
    from tests.processes import Processes

    # A new group waits for more members by default; one that does not makes tests quick.
    overrides = {"group.initial.rebalance.delay.ms": "0"}
    with Processes(tmp_path_factory.mktemp("cluster"), brokers=3, port=0, overrides=overrides) as running:
        yield running


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Ensemble]":
    """One ZooKeeper server for all tests, each of which takes a chroot of its own: `.hosts`."""
    from tests.ensemble import Ensemble

    with Ensemble(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def free_ports() -> Callable[[int], list[int]]:
    """`free_ports(3)`: so many different ports of the loopback that nobody listens on."""
    return ports.free_ports
