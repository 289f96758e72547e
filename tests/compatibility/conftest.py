"""The cluster of these tests looks often for transactions that ran out of time."""

from collections.abc import Callable, Iterator

import pytest

from tests.processes import Processes
from tidelog.shell.supervisor import Supervisor

OVERRIDES = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    with Processes(tmp_path_factory.mktemp("cluster"), brokers=3, port=0, overrides=OVERRIDES) as running:
        yield running


@pytest.fixture(scope="module")
def tool(kafka_tool: Callable[..., str], cluster: Supervisor) -> Callable[..., str]:
    """One of Kafka's tools, run against the cluster."""

    def run(name: str, *arguments: str, given: str = "") -> str:
        return kafka_tool(name, "--bootstrap-server", cluster.bootstrap, *arguments, given=given)

    return run
