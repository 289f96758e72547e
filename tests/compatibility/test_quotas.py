"""Client quotas on three real processes, with clients as they are published: who is over one is slowed down to it and told
so, others are not; and the same of new topics and connections."""

import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compatibility.support import Topic, awaited
from tidelog.cli.main import run
from tidelog.shell.supervisor import Supervisor

pytestmark = pytest.mark.processes

RATE = 200_000
RECORD = bytes(10_000)
WINDOWS = 3
BURST = RATE * (WINDOWS - 1)
"""What may come at once: the windows that have not been count as empty ones."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Rates are measured over three seconds, so that a test need not send for eleven."""
    options = {"quota.window.num": str(WINDOWS), "controller.quota.window.num": "2"}
    with Supervisor(tmp_path_factory.mktemp("quotas"), brokers=3, port=0, overrides=options) as running:
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
            awaited(lambda place=place: _knows(place, entity, quotas, capsys), "the quota")

    return set_


def _knows(place, entity, quotas, capsys):
    capsys.readouterr()
    run(["configs", *place, "--describe", *entity])
    out = capsys.readouterr().out
    return all(f"{name}={float(value)}" in out for name, value in quotas.items())


def produce(cluster, topic, client, total):
    """Send so many bytes; the seconds it took, and how often the client was told to wait."""
    told = []
    options = {"bootstrap.servers": cluster.bootstrap, "client.id": client, "linger.ms": 0, "acks": "all"}
    producer = Producer({**options, "throttle_cb": told.append})
    begin = time.monotonic()
    for _ in range(total // len(RECORD)):
        producer.produce(topic.name, RECORD, partition=0)
        producer.poll(0)
        producer.flush(60)
    return time.monotonic() - begin, len(told)


def test_who_produces_too_fast_is_slowed_down_to_the_quota(cluster, limit):
    topic = Topic(cluster.bootstrap, "produced", 1, leader=1)
    limit("--client", "slow", producer_byte_rate=RATE)
    total = BURST + 3 * RATE
    took, told = produce(cluster, topic, "slow", total)
    assert total <= BURST + RATE * (took + 1) * 1.1
    assert told > 0
    _, others = produce(cluster, topic, "free", total)
    assert others == 0


def test_who_fetches_too_fast_is_slowed_down_to_the_quota(cluster, limit):
    topic = Topic(cluster.bootstrap, "fetched", 1, leader=2)
    total = BURST + 3 * RATE
    produce(cluster, topic, "free", total)
    limit("--client", "reader", consumer_byte_rate=RATE)
    told = []
    options = {
        "bootstrap.servers": cluster.bootstrap,
        "client.id": "reader",
        "group.id": "r",
        "throttle_cb": told.append,
    }
    consumer = Consumer({**options, "auto.offset.reset": "earliest", "fetch.message.max.bytes": 50_000})
    consumer.assign([TopicPartition(topic.name, 0, 0)])
    begin, read = time.monotonic(), 0
    while read < total:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        read += len(message.value())
    took = time.monotonic() - begin
    consumer.close()
    assert total <= BURST + RATE * (took + 1) * 1.1 + 50_000
    assert told


def test_who_makes_too_many_partitions_waits(cluster, limit):
    """librdkafka asks in a version that is made to wait; newer ones are refused (`tests/node/quotas`)."""
    limit("--client", "maker", controller_mutation_rate=1)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "client.id": "maker"})
    begin = time.monotonic()
    for number in range(3):
        admin.create_topics([NewTopic(f"made-{number}", 3, 1)])[f"made-{number}"].result(30)
    assert time.monotonic() - begin >= 3  # two partitions of nine come at once, then one a second
    free = AdminClient({"bootstrap.servers": cluster.bootstrap, "client.id": "free"})
    free.create_topics([NewTopic("free", 30, 1)])["free"].result(30)


def test_kafkas_tool_is_refused_what_is_beyond_the_quota(cluster, limit, kafka_tool):
    """It asks in a version that refuses, and does not come again by itself."""
    limit("--client-defaults", controller_mutation_rate=0.05)
    make = ("TopicCommand", "--bootstrap-server", cluster.bootstrap, "--create", "--partitions", "10", "--topic")

    def make_several():
        for number in range(4):  # each broker counts for itself
            kafka_tool(*make, f"java-{number}")

    with pytest.raises(pytest.fail.Exception, match="ThrottlingQuotaExceededException"):
        make_several()
