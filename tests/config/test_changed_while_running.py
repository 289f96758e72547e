"""Options changed on a running cluster reach every broker and take effect there."""

import socket
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.waiting import wait_for
from tidelog.cli.main import run
from tidelog.client.admin import Coordinator
from tidelog.shell.transport import Admin
from tidelog.testing import Cluster
from tidelog.wire.codec import decode_response, encode_request
from tidelog.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

TOPIC, BROKER = ConfigResource.Type.TOPIC, ConfigResource.Type.BROKER
GROUP = SimpleNamespace(value=32)
SET, DELETE, APPEND = AlterConfigOpType.SET, AlterConfigOpType.DELETE, AlterConfigOpType.APPEND
WITHIN_S = 60


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=3) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster):
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def _said_by(broker, kind, name):
    """The options of a resource as this very broker describes them; none where it does not know the resource."""
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=kind.value, resource_name=name)])
    with socket.create_connection(("127.0.0.1", broker.port), timeout=WITHIN_S) as sock, sock.makefile("rb") as stream:
        sock.sendall(b"".join(encode_request(32, 4, 1, "test", request)))
        _, response = decode_response(32, 4, stream.read(int.from_bytes(stream.read(4))))
    return {option.name: option.value for option in response.results[0].configs}


def _wait_until_all_say(cluster, kind, name, option, value):
    for broker in cluster.brokers:
        wait_for(
            lambda broker=broker: _said_by(broker, kind, name).get(option) == value,
            f"broker {broker.id} to say {option}={value}",
        )


def _alter(admin, kind, name, option, operation, value=None):
    entry = ConfigEntry(option, value, incremental_operation=operation)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(WITHIN_S)


def _produce(cluster, topic, size):
    """The error of one record with a value of `size` bytes, or None."""
    errors = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 10_000_000})
    producer.produce(topic, bytes(size), partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WITHIN_S) == 0
    return errors[0]


def test_a_topics_option_reaches_every_broker_and_its_log(cluster, admin):
    created = NewTopic("sized", 1, 1, config={"max.message.bytes": "1000"})  # two brokers hold no replica of it
    admin.create_topics([created])["sized"].result(WITHIN_S)
    _wait_until_all_say(cluster, TOPIC, "sized", "max.message.bytes", "1000")
    assert _produce(cluster, "sized", 5000).code() == KafkaError.MSG_SIZE_TOO_LARGE
    _alter(admin, TOPIC, "sized", "max.message.bytes", SET, "9000")
    _wait_until_all_say(cluster, TOPIC, "sized", "max.message.bytes", "9000")
    assert _produce(cluster, "sized", 5000) is None
    _alter(admin, TOPIC, "sized", "max.message.bytes", DELETE)
    _wait_until_all_say(cluster, TOPIC, "sized", "max.message.bytes", "1048588")


def test_an_item_is_appended_to_a_list(cluster, admin):
    admin.create_topics([NewTopic("listed", 1, 3)])["listed"].result(WITHIN_S)
    _alter(admin, TOPIC, "listed", "cleanup.policy", APPEND, "compact")
    _wait_until_all_say(cluster, TOPIC, "listed", "cleanup.policy", "delete,compact")


def test_a_brokers_option_stands_behind_the_topics_own(cluster, admin):
    topics = [NewTopic("plain", 1, 3), NewTopic("own", 1, 3, config={"retention.ms": "7"})]
    for created in admin.create_topics(topics).values():
        created.result(WITHIN_S)
    for broker in cluster.brokers:
        _alter(admin, BROKER, str(broker.id), "log.retention.ms", SET, "123456")
    _wait_until_all_say(cluster, TOPIC, "plain", "retention.ms", "123456")
    _wait_until_all_say(cluster, TOPIC, "own", "retention.ms", "7")
    assert [_said_by(broker, BROKER, str(broker.id))["log.retention.ms"] for broker in cluster.brokers] == [
        "123456"
    ] * 3


def test_a_refused_option_names_itself_its_bounds_and_the_value(admin):
    with pytest.raises(KafkaException, match=r"log\.segment\.bytes must be at least 1048576, not '5'"):
        _alter(admin, BROKER, "0", "log.segment.bytes", SET, "5")


def test_a_groups_option_is_what_its_members_are_told(cluster, admin):
    _alter_group(cluster, "timed", "consumer.heartbeat.interval.ms", "7000")
    assert _told_to_beat_every(cluster, "timed") == 7000
    assert _told_to_beat_every(cluster, "other") == 5000
    _alter_group(cluster, "timed", "consumer.heartbeat.interval.ms", "8000")
    assert _told_to_beat_every(cluster, "timed") == 8000


def _alter_group(cluster, group, name, value):
    for broker in cluster.brokers:
        place = ["--bootstrap-server", broker.address]
        if broker is cluster.brokers[0]:
            assert run(["configs", *place, "--alter", "--group", group, "--add-config", f"{name}={value}"]) == 0
        wait_for(
            lambda broker=broker: _said_by(broker, GROUP, group)[name] == value,
            f"broker {broker.id} to say {name}={value}",
        )


def _told_to_beat_every(cluster, group):
    """The heartbeat interval that a new member of the group is given."""
    with Admin(cluster.bootstrap) as ours:
        joining = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=group,
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["nothing"],
            topic_partitions=[],
        )
        answer = ours.ask(joining, Coordinator(group))
        assert answer.error_code == 0, answer
        return answer.heartbeat_interval_ms
