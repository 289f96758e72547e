"""The blocking clients over real sockets, against three brokers in this process: what the tools, Spark and tests use."""

import socket
import threading
from contextlib import suppress

import pytest

from tests.waiting import PATIENCE_S, wait_for
from tidelog.client.admin import ANY, Coordinator
from tidelog.client.results import Assigned, Revoked
from tidelog.errors import ApiError, ErrorCode
from tidelog.shell.transport import Admin, Consumer, Producer, addresses
from tidelog.testing import Cluster
from tidelog.wire.messages.groups.group_admin import DescribeGroupsRequest
from tidelog.wire.messages.topics.metadata import MetadataRequest


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=3) as running:
        yield running


def create(cluster, name, partitions=2):
    """A topic that every broker knows."""
    cluster.create_topic(name, partitions)
    return [(name, number) for number in range(partitions)]


def read(consumer, count):
    taken = []
    while len(taken) < count:
        records = consumer.poll(PATIENCE_S)
        assert records, f"only {len(taken)} of {count} came"
        taken += records
    return taken


def test_what_is_sent_is_read(cluster):
    partitions = create(cluster, "sent-and-read")
    with Producer(cluster.bootstrap, compression_type="lz4") as producer:
        for number in range(500):
            producer.send("sent-and-read", b"%d" % number, key=b"%d" % (number % 7), headers=[("n", b"%d" % number)])
        deliveries = producer.flush(PATIENCE_S)
    assert [delivery.error for delivery in deliveries] == [ErrorCode.NONE] * 500
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        taken = read(consumer, 500)
        assert sorted(int(record.value) for record in taken) == list(range(500))
        assert {(record.topic, record.partition, record.offset) for record in taken} == {
            (delivery.topic, delivery.partition, delivery.offset) for delivery in deliveries
        }
        ends = consumer.end_offsets(partitions)
        assert sum(ends.values()) == 500
        assert sum(consumer.beginning_offsets(partitions).values()) == 0
        assert {partition: consumer.position(partition) for partition in partitions} == ends
        assert consumer.offsets_for_times({partitions[0]: 0})[partitions[0]].offset == 0


def test_a_group_goes_on_where_it_committed_and_shares_its_partitions(cluster):
    partitions = create(cluster, "shared")
    with Producer(cluster.bootstrap) as producer:
        for number in range(20):
            producer.send("shared", b"%d" % number, partition=number % 2)
    events = []
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 100}
    with Consumer(cluster.bootstrap, "sharers", on_event=events.append, **options) as first:
        first.subscribe(["shared"])
        read(first, 20)
        first.commit()
        assert {place: c.offset for place, c in first.committed(partitions).items()} == dict.fromkeys(partitions, 10)
        with Consumer(cluster.bootstrap, "sharers", **options) as second:
            second.subscribe(["shared"])
            wait_for(lambda: are_shared((first, second), partitions), "one each, and nothing read again")
    assert isinstance(events[0], Assigned)
    assert any(isinstance(event, Revoked) for event in events)
    with Admin(cluster.bootstrap) as admin:
        asked = DescribeGroupsRequest(groups=["sharers"])
        described = lambda: admin.ask(asked, Coordinator("sharers")).groups[0]  # noqa: E731
        wait_for(lambda: described().group_state == "Empty", "both to have left")
        assert described().members == []


def are_shared(consumers, partitions):
    for one in consumers:
        assert one.poll(0.05) == []
    return [len(one.assignment) for one in consumers] == [1, 1] and sorted(
        place for one in consumers for place in one.assignment
    ) == partitions


def test_the_leaders_death_is_survived(cluster):
    partitions = create(cluster, "survivor", partitions=3)
    with Producer(cluster.bootstrap) as producer, Admin(cluster.bootstrap) as admin:
        for number in range(100):
            producer.send("survivor", b"%d" % number, partition=number % 3)
        producer.flush(PATIENCE_S)
        (topic,) = [t for t in admin.ask(MetadataRequest(topics=None), ANY).topics if t.name == "survivor"]
        dead = topic.partitions[0].leader_id
        cluster.kill(dead)
        for number in range(100, 200):
            producer.send("survivor", b"%d" % number, partition=number % 3)
        assert {delivery.error for delivery in producer.flush(PATIENCE_S)} == {ErrorCode.NONE}
        cluster.start(dead)
    with Consumer(cluster.bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        taken = read(consumer, 200)
    for _, partition in partitions:
        expected = [b"%d" % number for number in range(200) if number % 3 == partition]
        assert [record.value for record in taken if record.partition == partition] == expected


def test_a_topic_that_is_not_there_is_reported(cluster):
    create(cluster, "somewhere")
    with Consumer(cluster.bootstrap, allow_auto_create_topics=False) as consumer:
        assert len(consumer.partitions_of("somewhere")) == 2
        with pytest.raises(ApiError, match="nowhere") as refused:
            consumer.partitions_of("nowhere", timeout=1)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_without_a_cluster_an_admin_gives_up_in_time(free_ports):
    (port,) = free_ports(1)
    with Admin(f"127.0.0.1:{port}", default_api_timeout_ms=300) as admin, pytest.raises(ApiError):
        admin.ask(MetadataRequest(topics=None), ANY)


def test_a_server_that_talks_nonsense_is_given_up_on():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def talk():
            with suppress(OSError):  # whoever asked has given up already
                for _ in range(2):
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(1000)
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        speaker = threading.Thread(target=talk, daemon=True)
        speaker.start()
        with Admin([("127.0.0.1", port)], default_api_timeout_ms=300) as admin, pytest.raises(ApiError):
            admin.ask(MetadataRequest(topics=None), ANY)
    speaker.join(10)


def test_addresses_are_read_as_bootstrap_servers_are_written():
    assert addresses("a:1, b:2,[::1]:3") == [("a", 1), ("b", 2), ("::1", 3)]
    for wrong in ("host", "host:", ":1", "host:port"):
        with pytest.raises(ValueError, match="is not HOST:PORT"):
            addresses(wrong)
