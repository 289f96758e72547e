"""`tidelog transactions` beside Kafka's own tool, on the same cluster."""

import pytest

from tests.cli.hanging import hanging_cluster, open_transaction

TOOL = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture(scope="module")
def cluster():
    with hanging_cluster() as started:
        yield started


@pytest.fixture
def on(tidelog, cluster):
    return lambda *words: tidelog("transactions", "--bootstrap-server", cluster.bootstrap, *words)


@pytest.fixture
def open_one(cluster):
    with open_transaction(cluster) as producer:
        yield producer


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("list", "--transactional-id-pattern", "b.*"),
        ("describe-producers", "--topic", "t", "--partition", "0"),
        ("find-hanging", "--topic", "t"),
        ("find-hanging", "--broker-id", "0"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("open_one")
def test_the_same_lines_as_kafkas_tool(cluster, on, kafka_tool, words):
    before, kafkas = on(*words).out, kafka_tool(TOOL, "--bootstrap-server", cluster.bootstrap, *words)
    assert kafkas in (before, on(*words).out), "before or after a minute of Duration(min) turned"
