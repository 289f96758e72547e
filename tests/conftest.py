"""What tests of every part share: Hypothesis profiles, free ports, Kafka's jars and tools, a cluster of processes.

Nothing here skips: what a test needs and the machine lacks is a failure that says how to get it.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests import ports, tiers

if TYPE_CHECKING:
    from tests.ensemble import Ensemble
    from tests.kafka_tools import ToolServer
    from tidelog.shell.supervisor import Supervisor

ROOT = Path(__file__).parent.parent
KAFKA_VERSION = "4.3.1"

settings.register_profile(
    "ci",
    max_examples=100,
    derandomize=True,  # the same examples on every machine; `--hypothesis-profile=search` looks for new ones
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("ci"), max_examples=25)
settings.register_profile("search", settings.get_profile("ci"), max_examples=2000, derandomize=False)
settings.load_profile("ci")


# Every process that a test starts, Spark's workers included, would compile the whole tree again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "write down what the scenarios of tests/scenarios tell now"
    parser.addoption("--rewrite-scenarios", action="store_true", help=help_text)
    help_text = "write down what the tests of clients see now in tests/compatibility/clients/results"
    parser.addoption("--rewrite-clients", action="store_true", help=help_text)
    help_text = "the tests to run (default: all that pytest's arguments name)"
    parser.addoption("--selection", choices=["quick", "standard", "all"], default="all", help=help_text)


def pytest_configure(config: pytest.Config) -> None:
    for tier, needs in tiers.TIERS.items():
        config.addinivalue_line("markers", f"{tier}: {needs}")
    if config.getoption("selection") == "quick" and not config.getoption("hypothesis_profile", None):
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what the selection leaves out."""
    if collection_path.suffix != ".py" or not collection_path.is_relative_to(ROOT):
        return None
    path = collection_path.relative_to(ROOT).as_posix()
    return None if tiers.may_be_selected(config.getoption("selection"), path) else True


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give the test its tier."""
    path, fixtures = _path(item), set(getattr(item, "fixturenames", ()))
    if wrong := tiers.misplaced(path, fixtures):
        raise pytest.UsageError(wrong)
    item.add_marker(tiers.tier_of(path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not selected, and put the longest groups first."""
    selection = config.getoption("selection")
    left = [item for item in items if not tiers.is_selected(selection, _path(item), item.name)]
    if left:
        gone = set(left)
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in gone]
    items.sort(key=lambda item: tiers.order_of(_path(item)))


def _path(item: pytest.Item) -> str:
    return _relative(item.path)


@cache  # each of 7,000 tests is looked at three times
def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """More workers than there are cores: many tests wait for a moment or a disk, and those of processes for these."""
    return (os.cpu_count() or 1) + (1 if config.getoption("selection") == "quick" else 2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Group tests by tests/tiers.py. Marks of pytest-xdist 3.8 would end in node ids, where pytest 9.2 does not look."""
    from xdist.scheduler import LoadGroupScheduling

    class Scheduling(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return tiers.group_of(nodeid)

    return Scheduling(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.fixture(scope="module")
def clients_sockets_are_collected() -> Iterator[None]:
    """For a module whose clients, kafka-python and aiokafka, leave sockets to the garbage collector: otherwise it runs in
    a later test of this worker and fails it, since warnings are errors. The module ignores ResourceWarning."""
    yield
    gc.collect()


@pytest.fixture
def kept(request: pytest.FixtureRequest) -> "Callable[[str, dict[str, Any]], None]":
    """`kept(client, found)` fails if the client can do more or less than tests/compatibility/clients/results says."""
    from tests.compatibility.clients import results

    rewrite = bool(request.config.getoption("rewrite_clients"))
    return partial(results.keep, test=request.node.nodeid, rewrite=rewrite)


@pytest.fixture(scope="session")
def kafka_libs() -> str:
    """The class path of Apache Kafka 4.3.1 with its tools: `java -cp KAFKA_LIBS org.apache.kafka.tools.…`."""
    folder = Path(os.environ.get("TIDELOG_KAFKA_LIBS") or ROOT / ".cache" / "kafka" / KAFKA_VERSION / "libs")
    if not any(folder.glob("*.jar")):
        pytest.fail(f"Apache Kafka's jars are not in {folder}: run scripts/setup test")
    return f"{folder}/*"


@pytest.fixture(scope="session")
def tool_server(kafka_libs: str, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[ToolServer]":
    """The JVM that all tools of a run's worker share: `tool_server.run(main, …)` → its exit code, stdout and stderr."""
    from tests.kafka_tools import ToolServer

    with ToolServer(kafka_libs, tmp_path_factory.mktemp("kafka-tools")) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_tool(tool_server: "ToolServer") -> Callable[..., str]:
    """Runs one of Kafka's own tools: `kafka_tool("TopicCommand", "--list", …, given="", within_s=180)` → its output.

    A name without a package is in org.apache.kafka.tools. An exit code other than 0 is a failure with what it said.
    """

    def run(name: str, *arguments: str, given: str = "", within_s: float = 180) -> str:
        main = name if "." in name else f"org.apache.kafka.tools.{name}"
        done = tool_server.run(main, *arguments, given=given, within_s=within_s)
        if done.returncode != 0:
            pytest.fail(f"{name} {' '.join(arguments)} exited with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    return run


@pytest.fixture(scope="session")
def secured_kafka(
    kafka_libs: str, kafka_tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, int], Path]]:
    """One real Kafka for tests that have topics and groups of their own, and leave no options behind: its ports by
    protocol, and the certificate that a client is to trust."""
    from tests.compatibility.differential import secured

    with secured.kafka(tmp_path_factory.mktemp("secured"), kafka_libs, tool=kafka_tool) as found:
        yield found


@pytest.fixture(scope="session")
def real_kafka(secured_kafka: tuple[dict[str, int], Path]) -> str:
    """HOST:PORT of that Kafka where it wants neither TLS nor a password."""
    return f"127.0.0.1:{secured_kafka[0]['PLAINTEXT']}"


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
