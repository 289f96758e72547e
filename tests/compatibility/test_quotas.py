"""Client quotas on three real processes, with clients as they are published: who is over one is slowed down to it and told
so, others are not; and the same of new topics and connections."""

import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compatibility.support import Topic
from tests.processes import Processes
from tests.waiting import PATIENCE_S, wait_for
from tidelog.cli.main import run

RATE = 200_000
RECORD = bytes(10_000)
WINDOWS = 3
BURST = RATE * (WINDOWS - 1)
"""What may come at once: the windows that have not been count as empty ones."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Rates are measured over three seconds, so that a test need not send for eleven."""
    options = {"quota.window.num": str(WINDOWS), "controller.quota.window.num": "2"}
    with Processes(tmp_path_factory.mktemp("quotas"), brokers=3, port=0, overrides=options) as running:
        yield running


@pytest.fixture
def limit(cluster, capsys):
    """Set a quota, and wait until every broker knows."""

    def set_(*entity, **quotas):
        given = ",".join(f"{name}={value}" for name, value in quotas.items())
        for number, child in enumerate(cluster.children):
            place = ["--bootstrap-server", f"{child.host}:{child.port}"]
            if number == 0:
                assert run(["configs", *place, "--alter", *entity, "--add-config", given]) == 0
            wait_for(lambda place=place: _knows(place, entity, quotas, capsys), "the quota")

    return set_


def _knows(place, entity, quotas, capsys):
    capsys.readouterr()
    run(["configs", *place, "--describe", *entity])
    out = capsys.readouterr().out
    return all(f"{name}={float(value)}" in out for name, value in quotas.items())


def producer_of(cluster, client, told):
    options = {"bootstrap.servers": cluster.bootstrap, "client.id": client, "linger.ms": 0, "acks": "all"}
    return Producer({**options, "throttle_cb": told.append})


def produce(producer, topic, total):
    """Send so many bytes one record after the other; the seconds it took."""
    begin = time.monotonic()
    for _ in range(total // len(RECORD)):
        producer.produce(topic.name, RECORD, partition=0)
        producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0
    return time.monotonic() - begin


def produce_at_once(producer, topic, total):
    for _ in range(total // len(RECORD)):
        producer.produce(topic.name, RECORD, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def test_who_produces_too_fast_is_slowed_down_to_the_quota(cluster, limit):
    topic = Topic(cluster.bootstrap, "produced", 1, leader=1)
    limit("--client", "slow", producer_byte_rate=RATE)
    total = BURST + 2 * RATE
    told, others = [], []
    slow = producer_of(cluster, "slow", told)
    took = produce(slow, topic, total)
    assert total <= BURST + RATE * (took + 1) * 1.1
    # A slow machine may have sent that no faster than it is allowed to.
    wait_for(lambda: told or produce_at_once(slow, topic, total), "the client to be told to wait")
    produce(producer_of(cluster, "free", others), topic, total)
    assert others == []


def test_who_fetches_too_fast_is_slowed_down_to_the_quota(cluster, limit):
    topic = Topic(cluster.bootstrap, "fetched", 1, leader=2)
    total = BURST + 2 * RATE
    produce(producer_of(cluster, "free", []), topic, total)
    limit("--client", "reader", consumer_byte_rate=RATE)
    told = []
    options = {
        "bootstrap.servers": cluster.bootstrap,
        "client.id": "reader",
        "group.id": "r",
        "throttle_cb": told.append,
    }
    consumer = Consumer({**options, "auto.offset.reset": "earliest", "fetch.message.max.bytes": 50_000})
    begin = time.monotonic()
    read_all(consumer, topic, total)
    took = time.monotonic() - begin
    assert total <= BURST + RATE * (took + 1) * 1.1 + 50_000
    wait_for(lambda: told or read_all(consumer, topic, total), "the client to be told to wait")
    consumer.close()


def read_all(consumer, topic, total):
    consumer.assign([TopicPartition(topic.name, 0, 0)])
    read = 0
    while read < total:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        read += len(message.value())


def test_who_makes_too_many_partitions_waits(cluster, limit):
    """librdkafka asks in a version that is made to wait; newer ones are refused (`tests/node/quotas`)."""
    limit("--client", "maker", controller_mutation_rate=1)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "client.id": "maker"})
    begin = time.monotonic()
    for number in range(2):
        admin.create_topics([NewTopic(f"made-{number}", 3, 1)])[f"made-{number}"].result(PATIENCE_S)
    assert time.monotonic() - begin >= 0.9  # two partitions may come at once: the next topic waits for the third
    free = AdminClient({"bootstrap.servers": cluster.bootstrap, "client.id": "free"})
    free.create_topics([NewTopic("free", 30, 1)])["free"].result(PATIENCE_S)


def test_kafkas_tool_is_refused_what_is_beyond_the_quota(cluster, limit, kafka_tool, tmp_path):
    """It asks in a version that refuses, and does not come again by itself."""
    limit("--client-defaults", controller_mutation_rate=0.05)
    config = tmp_path / "client.properties"
    config.write_text("client.id=java\n", encoding="ascii")  # by itself, each client of a JVM has another
    place = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(config))
    make = ("TopicCommand", *place, "--create", "--partitions", "10", "--topic")

    def make_several():
        for number in range(4):  # each broker counts for itself
            kafka_tool(*make, f"java-{number}")

    with pytest.raises(pytest.fail.Exception, match="ThrottlingQuotaExceededException"):
        make_several()
