"""Fixtures of a cluster for pytest, found by its entry point: nothing has to be imported or configured.

- `tidelog_cluster`: one `tidelog.testing.Cluster` for the whole session (for each worker of pytest-xdist).
- `tidelog_topic`: the name of a new topic on it, for one test.
- `tidelog`: starts clusters that end with the test: `tidelog(brokers=1, min_insync_replicas=1)`.

After each test that used the session's cluster, faults are healed, brokers that are down are started, and clocks that
were moved on are set back. The report of
a failed test has what the brokers logged during the test. Every test run in this environment loads this module, so it
imports Tidelog only when a test needs it.
"""

import re
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tidelog.testing import Cluster

BROKERS = 3
LOG_LINES = 100
"""Of each broker in a report, the last ones."""
NAME_CHARACTERS = 100

_cluster = pytest.StashKey["Cluster"]()
_topics = pytest.StashKey[list[str]]()
_began = pytest.StashKey[float]()
_numbers = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tidelog", "clusters of Tidelog")
    shown = f"number of brokers of the fixture tidelog_cluster (default: {BROKERS})"
    group.addoption("--tidelog-brokers", type=int, metavar="N", help=shown)
    parser.addini("tidelog_brokers", shown)
    parser.addini("tidelog_options", "broker options of tidelog_cluster, one NAME=VALUE a line", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "tidelog_topic(partitions=1, replicas=None, **options): how tidelog_topic creates the topic"
    )
    _number_of_brokers(config)


def _number_of_brokers(config: pytest.Config) -> int:
    given = config.getoption("--tidelog-brokers")
    text = str(given if given is not None else config.getini("tidelog_brokers") or BROKERS)
    if not text.isdecimal() or int(text) < 1:
        raise pytest.UsageError(f"tidelog_brokers: {text!r} is not a number of brokers; expected 1 or more")
    return int(text)


@pytest.fixture(scope="session")
def tidelog_cluster(pytestconfig: pytest.Config) -> "Iterator[Cluster]":
    """A running cluster, the same for all tests of the session; `--tidelog-brokers` brokers."""
    from tidelog.testing import Cluster

    options = dict(_option(line) for line in pytestconfig.getini("tidelog_options"))
    with Cluster(_number_of_brokers(pytestconfig), options=options) as cluster:
        pytestconfig.stash[_cluster] = cluster
        yield cluster
        del pytestconfig.stash[_cluster]


def _option(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals:
        raise pytest.UsageError(f"tidelog_options: {line!r} is not an option; expected NAME=VALUE")
    return name.strip(), value.strip()


@pytest.fixture
def tidelog_topic(request: pytest.FixtureRequest, tidelog_cluster: "Cluster") -> str:
    """The name of a topic of `tidelog_cluster` that only this test uses. Its partitions and options are those of the
    mark `@pytest.mark.tidelog_topic(partitions=3, cleanup_policy="compact")`."""
    name = f"{re.sub('[^a-zA-Z0-9._-]+', '-', request.node.name)[:NAME_CHARACTERS]}-{next(_numbers)}"
    mark = request.node.get_closest_marker("tidelog_topic")
    tidelog_cluster.create_topic(name, *(mark.args if mark else ()), **(mark.kwargs if mark else {}))
    request.config.stash.setdefault(_topics, []).append(name)
    return name


@pytest.fixture
def tidelog() -> "Iterator[Callable[..., Cluster]]":
    """Starts a cluster with the arguments of `tidelog.testing.Cluster`; it is closed at the end of the test."""
    from tidelog.testing import Cluster

    with ExitStack() as stack:

        def start(*arguments: Any, **options: Any) -> Cluster:
            return stack.enter_context(Cluster(*arguments, **options))

        yield start


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_began] = time.monotonic()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """The next test finds the session's cluster whole again."""
    yield
    cluster = item.config.stash.get(_cluster, None)
    topics = item.config.stash.get(_topics, [])
    used, topics[:] = list(topics), []
    if cluster is not None and "tidelog_cluster" in getattr(item, "fixturenames", ()):
        cluster.heal()
        cluster.start()
        cluster.reset_clock()
        cluster.forget_requests()
        if used:
            cluster.delete_topics(used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> "Generator[None, pytest.TestReport, pytest.TestReport]":
    report = yield
    if report.failed:
        report.sections += _logs(item.stash.get(_began, 0.0))
    return report


def _logs(since: float) -> Iterator[tuple[str, str]]:
    """What the brokers of this process logged since then: (title, lines)."""
    lifecycle = sys.modules.get("tidelog.testing.lifecycle")
    for cluster in list(lifecycle.clusters) if lifecycle is not None else ():
        for broker in cluster.brokers:
            lines = broker.logger.text_since(since)
            if lines:
                yield f"Tidelog {broker.logger.who}", "\n".join(lines[-LOG_LINES:])
