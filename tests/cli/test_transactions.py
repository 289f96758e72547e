"""`tidelog transactions`: what Kafka's tool prints, and a hanging transaction found, explained and aborted."""

import pytest

from tidelog.client.admin import Leader
from tidelog.errors import ApiError
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Admin
from tidelog.testing import Cluster
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records import TRANSACTIONAL, Record, build

LONG_AGO = 1_600_000_000_000
PRODUCER_ID = 4_711
TOOL = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture(scope="module")
def cluster():
    """Leaders that take what no coordinator was told of."""
    with Cluster(brokers=1, transaction_partition_verification_enable=False) as started:
        started.create_topic("t", 2)
        hang(started.bootstrap, "t", 0)
        yield started


def hang(bootstrap, topic, partition):
    records = build(
        [Record(0, LONG_AGO, None, b"hangs")],
        attributes=TRANSACTIONAL,
        producer_id=PRODUCER_ID,
        producer_epoch=3,
        base_sequence=0,
    )
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])]
    request = ProduceRequest(transactional_id="gone", acks=-1, timeout_ms=10_000, topic_data=data)
    with Admin(bootstrap) as admin:
        answer = admin.ask(request, Leader(topic, partition), newest=9)
    assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.fixture
def on(tidelog, cluster):
    return lambda *words: tidelog("transactions", "--bootstrap-server", cluster.bootstrap, *words)


@pytest.fixture
def open_one(cluster):
    """A transaction of id `app` in t-1."""
    with TransactionalProducer(cluster.bootstrap, "app", transaction_timeout_ms=600_000) as producer:
        producer.begin()
        producer.send("t", b"open", partition=1)
        producer.flush()
        yield producer
        try:
            producer.abort()
        except ApiError:
            producer.abandon()


def rows(result):
    assert result.code == 0, result.err
    return [line.split() for line in result.lines[1:]]


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


@pytest.mark.usefixtures("open_one")
def test_an_open_transaction_is_described(on):
    ((coordinator, name, *_, state, timeout, _, _, partitions),) = rows(on("describe", "--transactional-id", "app"))
    assert (coordinator, name, state, partitions) == ("0", "app", "Ongoing", "t-1")
    assert int(timeout) > 0
    assert [row[0] for row in rows(on("list"))] == ["app"]
    assert rows(on("list", "--duration-filter", "3600000")) == []


def test_one_that_nobody_will_end_is_found_explained_and_aborted(tidelog, cluster, on):
    hanging = ["t", "0", str(PRODUCER_ID), "3", "-1", "0", str(LONG_AGO)]
    assert [row[:-1] for row in rows(on("find-hanging", "--topic", "t"))] == [hanging]
    told = tidelog("explain", "partition", "--bootstrap-server", cluster.bootstrap, "--watch-ms", "0", "t-0")
    assert f"Producer {PRODUCER_ID} began it at offset 0, and no coordinator knows of it." in told.out
    help_ = next(line for line in told.lines if "Abort it: tidelog transactions" in line)
    words = help_.partition("tidelog ")[2].split()
    assert tidelog(*words).code == 0
    assert rows(on("find-hanging", "--broker-id", "0")) == []
    again = tidelog(*words)
    assert (again.code, "Could not find any open transactions" in again.err) == (1, True)


def test_an_id_is_taken_from_its_producer(on, open_one):
    assert on("forceTerminateTransaction", "--transactionalId", "app").code == 0
    with pytest.raises(ApiError, match=r"FENCED|EPOCH"):
        open_one.commit()
    state = rows(on("describe", "--transactional-id", "app"))[0][4]
    assert state in ("CompleteAbort", "PrepareAbort", "Empty")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("describe", "--transactional-id", "nobody"), "TRANSACTIONAL_ID_NOT_FOUND"),
        (("describe-producers", "--topic", "nothing", "--partition", "0"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("find-hanging",), "needs --topic or --broker-id"),
        (("find-hanging", "--broker-id", "0", "--partition", "1"), "--partition goes with --topic"),
        (("abort", "--topic", "t", "--partition", "0"), "--start-offset"),
        (("abort", "--topic", "t", "--partition", "0", "--producer-id", "3"), "--producer-epoch"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(on, words, sentence):
    result = on(*words)
    assert result.code == 1
    assert sentence in result.err
    assert len(result.err.strip().splitlines()) == 1
