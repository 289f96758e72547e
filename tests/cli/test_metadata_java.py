"""`tidelog metadata` on ZooKeeper: what test_metadata.py says of SQLite, and a cluster that moves from one to the other."""

import json
from itertools import count

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.test_metadata import (  # noqa: F401 (collected here once more, on the `place` of this file)
    metadata,
    refused,
    store,
    test_a_registered_broker_is_in_the_way_and_a_torn_file_is_refused,
    test_a_tree_is_written_down_and_read_back_without_broker_epochs,
    test_nodes_are_listed_read_written_and_deleted,
    test_what_cannot_be_is_one_sentence_and_changes_nothing,
    used,
)
from tests.waiting import PATIENCE_S, wait_for
from tidelog.controller import tree
from tidelog.shell.supervisor import Supervisor

CHROOTS = count()


@pytest.fixture
def place(zookeeper):
    return used(f"zookeeper://{zookeeper.hosts}/cli/{next(CHROOTS)}")


def test_a_chroot_that_is_not_there_is_not_made(tidelog, zookeeper):
    hosts = zookeeper.hosts
    result = tidelog("metadata", "ls", "--metadata", f"zookeeper://{hosts}/none")
    refused(result, f"ZooKeeper has no node /none, the chroot of zookeeper://{hosts}/none.")
    result = tidelog("metadata", "ls", "--metadata", f"zookeeper://{hosts}/none")
    assert result.code == 1


def test_a_cluster_moves_from_sqlite_to_zookeeper_with_its_records(tidelog, zookeeper, tmp_path):
    folder, file = tmp_path / "cluster", tmp_path / "memory"
    records = [b"%d" % number for number in range(500)]
    with Supervisor(folder, brokers=3, port=0) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        options = {"retention.ms": "12345678"}
        admin.create_topics([NewTopic("kept", 3, 3, config=options)])["kept"].result(PATIENCE_S)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
        for number, record in enumerate(records):
            producer.produce("kept", record, partition=number % 3)
        assert producer.flush(PATIENCE_S) == 0
        busy = tidelog("metadata", "export", str(file), "--data", str(folder))
        refused(busy, "Broker 0 is registered: stop the cluster first.")
    place = f"zookeeper://{zookeeper.hosts}/moved"
    assert tidelog("metadata", "export", str(file), "--data", str(folder)).code == 0
    assert tidelog("metadata", "import", str(file), "--metadata", place).code == 0
    overrides = {"zookeeper.connect": place.removeprefix("zookeeper://"), "zookeeper.session.timeout.ms": "30000"}
    with Supervisor(folder, brokers=3, port=0, overrides=overrides) as cluster:
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log_level": 0})
        consumer.assign([TopicPartition("kept", index, 0) for index in range(3)])
        read = []
        while len(read) < len(records):
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None, message.error()
            read.append(message.value())
        consumer.close()
        assert sorted(read, key=int) == records
        described = tidelog("configs", "--bootstrap-server", cluster.bootstrap, "--describe", "--topic", "kept")
        assert "retention.ms=12345678" in described.out
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

        def all_in_sync():
            found = admin.list_topics("kept", timeout=PATIENCE_S).topics["kept"].partitions.values()
            return [len(each.isrs) for each in found] == [3, 3, 3]

        wait_for(all_in_sync, "every replica in sync again")
        state = json.loads(tidelog("metadata", "get", tree.state_path("kept", 0), "--data", str(folder)).out)
        assert -1 not in state["isr_epochs"]
