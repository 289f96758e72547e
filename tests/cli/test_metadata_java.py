"""`tidelog metadata` on ZooKeeper: what test_metadata.py says of SQLite, and a cluster that moves from one to the other."""

import json
import os
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
from tidelog.security.added_users import with_password
from tidelog.security.scram import MECHANISMS
from tidelog.shell.store import scram_users
from tidelog.shell.store.store_address import SqliteAddress
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


OPEN = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""A cluster without security that has ACLs."""
RECORDS = [b"%d" % number for number in range(500)]


def filled(tidelog, bootstrap):
    """A topic with an option and RECORDS, what a group has read of them, and an ACL."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("kept", 3, 3, config={"retention.ms": "12345678"})])["kept"].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for number, record in enumerate(RECORDS):
        producer.produce("kept", record, partition=number % 3)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("kept", index, 40 + index) for index in range(3)], asynchronous=False)
    consumer.close()
    place = ("--bootstrap-server", bootstrap)
    rule = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "kept")
    assert tidelog("acls", *place, "--add", *rule).code == 0


def described(tidelog, cluster):
    """What `filled` made, as the cluster shows it, and what brokers keep of the user's password."""
    bootstrap = cluster.bootstrap
    place = ("--bootstrap-server", bootstrap)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "log_level": 0})
    committed = consumer.committed([TopicPartition("kept", index) for index in range(3)], timeout=PATIENCE_S)
    consumer.close()
    return {
        "options": tidelog("configs", *place, "--describe", "--topic", "kept").out,
        "user": tidelog("metadata", "get", f"{tree.USER_CONFIGS}/alice", "--data", str(cluster.folder)).out,
        "acls": tidelog("acls", *place, "--list").out,
        "offsets": [each.offset for each in committed],
    }


def read_all(bootstrap):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition("kept", index, 0) for index in range(3)])
    read = []
    while len(read) < len(RECORDS):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None, message.error()
        read.append(message.value())
    consumer.close()
    return sorted(read, key=int)


def all_in_sync(bootstrap):
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def is_so():
        found = admin.list_topics("kept", timeout=PATIENCE_S).topics["kept"].partitions.values()
        return [len(each.isrs) for each in found] == [3, 3, 3]

    wait_for(is_so, "every replica in sync again")


def test_a_cluster_moves_from_sqlite_to_zookeeper_and_back_with_all_that_it_has(tidelog, zookeeper, tmp_path):
    folder, file = tmp_path / "cluster", tmp_path / "memory"
    user = with_password("alice", MECHANISMS["SCRAM-SHA-256"], "secret", os.urandom)
    scram_users.add(SqliteAddress(folder / "metadata.sqlite"), [user])
    with Supervisor(folder, brokers=3, port=0, overrides=OPEN) as cluster:
        filled(tidelog, cluster.bootstrap)
        expected = described(tidelog, cluster)
        assert "retention.ms=12345678" in expected["options"]
        assert "stored_key=" in expected["user"]
        assert "User:alice" in expected["acls"]
        assert expected["offsets"] == [40, 41, 42]
        busy = tidelog("metadata", "export", str(file), "--data", str(folder))
        refused(busy, "Broker 0 is registered: stop the cluster first.")
    place = f"zookeeper://{zookeeper.hosts}/moved"
    assert tidelog("metadata", "export", str(file), "--data", str(folder)).code == 0
    assert tidelog("metadata", "import", str(file), "--metadata", place).code == 0
    in_zookeeper = {"zookeeper.connect": place.removeprefix("zookeeper://"), "zookeeper.session.timeout.ms": "30000"}
    with Supervisor(folder, brokers=3, port=0, overrides=OPEN | in_zookeeper) as cluster:
        assert read_all(cluster.bootstrap) == RECORDS
        all_in_sync(cluster.bootstrap)
        assert described(tidelog, cluster) == expected
        state = json.loads(tidelog("metadata", "get", tree.state_path("kept", 0), "--data", str(folder)).out)
        assert -1 not in state["isr_epochs"]
        again = tidelog("configs", "--bootstrap-server", cluster.bootstrap, "--alter", "--topic", "kept", *RETENTION)
        assert again.code == 0
        expected = described(tidelog, cluster)
    assert tidelog("metadata", "export", str(file), "--data", str(folder)).code == 0
    back = f"sqlite:{tmp_path}/back/metadata.sqlite"
    assert tidelog("metadata", "import", str(file), "--metadata", back).code == 0
    with Supervisor(folder, brokers=3, port=0, overrides=OPEN | {"metadata.store": back}) as cluster:
        assert read_all(cluster.bootstrap) == RECORDS
        all_in_sync(cluster.bootstrap)
        assert described(tidelog, cluster) == expected
        assert "retention.ms=7654321" in expected["options"]


RETENTION = ("--add-config", "retention.ms=7654321")
