"""A cluster in this process: it is there at once, survives its brokers, and leaves nothing behind."""

import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer as ConfluentProducer

from tests.waiting import wait_for
from tidelog.client.admin import ANY
from tidelog.client.options import AdminOptions
from tidelog.client.properties import keywords, renamed
from tidelog.errors import ApiError, ErrorCode, InvalidOption
from tidelog.shell.log_dir_lock import CannotStart
from tidelog.shell.transport import Admin, Consumer, Producer
from tidelog.testing import Cluster
from tidelog.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.topics.metadata import MetadataRequest
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest


def send(cluster, topic, *values):
    with Producer(cluster.bootstrap, linger_ms=0) as producer:
        for value in values:
            producer.send(topic, value)
        return [delivery.is_acknowledged for delivery in producer.flush(timeout=120)]


def read(cluster, topic, count):
    with Consumer(cluster.bootstrap, "readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        found = []
        while len(found) < count:
            records = consumer.poll(timeout=120)
            assert records, f"only {found}"
            found += [record.value for record in records]
        return found


def test_what_is_sent_is_read_while_brokers_are_killed_and_come_back():
    with Cluster(min_insync_replicas=2) as cluster:
        cluster.create_topic("t")
        assert send(cluster, "t", b"1", b"2") == [True, True]
        cluster.kill(0)
        assert not cluster.brokers[0].is_running
        assert send(cluster, "t", b"3") == [True]
        cluster.start(0)
        cluster.kill(1)
        assert send(cluster, "t", b"4") == [True]
        cluster.start(1)
        cluster.stop(2)
        cluster.start(2)
        assert read(cluster, "t", 4) == [b"1", b"2", b"3", b"4"]


def test_a_broker_keeps_its_port_and_its_data_through_a_kill():
    with Cluster(brokers=1) as cluster:
        port = cluster.brokers[0].port
        cluster.create_topic("t")
        send(cluster, "t", b"1")
        cluster.kill(0)
        cluster.start()
        assert cluster.brokers[0].port == port
        assert read(cluster, "t", 1) == [b"1"]


def test_all_brokers_know_each_other_once_the_cluster_is_there():
    with Cluster(brokers=3) as cluster, Admin(cluster.bootstrap) as admin:
        for broker in range(3):
            response = admin.ask(MetadataRequest(topics=[]), broker)
            assert {each.node_id for each in response.brokers} == {0, 1, 2}
            assert response.controller_id in (0, 1, 2)


def test_nothing_is_left_when_it_ends():
    before = set(threading.enumerate())
    with Cluster(brokers=2) as cluster:
        folder = cluster.folder
        cluster.create_topic("t")
        send(cluster, "t", b"1")
    assert not folder.exists()
    wait_for(lambda: set(threading.enumerate()) <= before, "threads that wait for the end of a session to end")
    assert "down" in repr(cluster)


def test_a_given_folder_is_kept_and_opened_again(tmp_path):
    with Cluster(brokers=1, folder=tmp_path) as cluster:
        cluster.create_topic("t")
        send(cluster, "t", b"1")
    with Cluster(brokers=1, folder=tmp_path) as cluster:
        assert read(cluster, "t", 1) == [b"1"]


def test_options_reach_every_broker_in_both_spellings():
    with (
        Cluster(brokers=1, auto_create_topics_enable=False, options={"num.partitions": "7"}) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        admin.ask(CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=-1, replication_factor=-1)]))
        topics = admin.ask(MetadataRequest(topics=None), ANY).topics
        assert [(topic.name, len(topic.partitions)) for topic in topics] == [("t", 7)]


def test_a_wrong_option_is_refused_before_anything_starts():
    with pytest.raises(InvalidOption, match=r"num.partitions must be at least 1, not '0'"):
        Cluster(num_partitions=0)
    with pytest.raises(TypeError, match=r"unknown broker option num.partition$"):
        Cluster(num_partition=1)


def test_a_broker_that_cannot_start_says_why(tmp_path):
    with Cluster(brokers=1, folder=tmp_path), pytest.raises(CannotStart, match="is used by another process"):
        Cluster(brokers=1, folder=tmp_path).start()


def test_what_a_broker_logs_is_kept():
    with Cluster(brokers=1) as cluster:
        assert cluster.brokers[0].wait_for_line("controller.elected")["broker"] == 0
        assert Path(cluster.brokers[0].folder, "meta.properties").exists()


def test_a_created_topic_is_known_to_every_broker_with_its_options():
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("t", partitions=3, replicas=1, min_insync_replicas=2, cleanup_policy=["compact", "delete"])
        with Admin(cluster.bootstrap) as admin:
            for broker in range(2):
                (topic,) = admin.ask(MetadataRequest(topics=None), broker).topics
                assert len(topic.partitions) == 3
            asked = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=["cleanup.policy"])
            (result,) = admin.ask(DescribeConfigsRequest(resources=[asked]), ANY).results
            assert [option.value for option in result.configs] == ["compact,delete"]
        with pytest.raises(ApiError) as refused:
            cluster.create_topic("t")
        assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_secured_cluster_serves_who_has_its_options_and_nobody_else():
    with Cluster(brokers=2, secure=True) as cluster:
        cluster.create_topic("t", replicas=2, min_insync_replicas=2)
        producer = ConfluentProducer({**cluster.client_options, "linger.ms": 0})
        producer.produce("t", b"one")
        assert producer.flush(60) == 0
        wrong = keywords(AdminOptions, renamed({**cluster.client_options, "sasl.password": "wrong"}))
        with Admin(cluster.bootstrap, **wrong) as admin, pytest.raises(ApiError, match="refuses user 'admin'"):
            admin.ask(MetadataRequest(topics=[]), ANY)
        with Admin(cluster.bootstrap, default_api_timeout_ms=200) as plain, pytest.raises(ApiError):
            plain.ask(MetadataRequest(topics=[]), ANY)


def test_the_options_of_a_plain_cluster_are_its_address():
    cluster = Cluster(brokers=1)
    assert cluster.client_options == {"bootstrap.servers": cluster.bootstrap}
    cluster.close()
