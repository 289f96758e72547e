"""`tidelog metadata` on ZooKeeper: what test_metadata.py says of SQLite, and a cluster that moves between all stores."""

import json
import os
import shutil
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
from tests.waiting import PATIENCE_S
from tidelog.controller import tree
from tidelog.quorum.formatting import METADATA_FOLDER
from tidelog.security.added_users import with_password
from tidelog.security.scram import MECHANISMS
from tidelog.shell.store import scram_users
from tidelog.shell.store.store_address import parse_address
from tidelog.testing import Cluster

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
ROUTE = ("sqlite", "quorum", "zookeeper", "sqlite", "zookeeper", "quorum", "sqlite")
"""Every store, followed by every other one."""


class Stores:
    """The stores that one cluster moves through. A store that was left is not used again."""

    def __init__(self, folder, zookeeper):
        self.folder = folder
        self._zookeeper = f"zookeeper://{zookeeper.hosts}/moved"
        self._numbers = count()

    def new(self, kind):
        """What selects a new store of this kind, for `tidelog metadata`."""
        number = next(self._numbers)
        places = {
            "sqlite": f"sqlite:{self.folder}-store-{number}/metadata.sqlite",
            "zookeeper": f"{self._zookeeper}/{number}",
            "quorum": f"quorum:{self.folder}",
        }
        return places[kind]

    def cluster(self, kind, place):
        """The brokers on the store; with a quorum they support no authorizer."""
        if kind == "quorum":
            return Cluster(brokers=3, folder=self.folder, metadata="quorum", min_insync_replicas=2)
        where = {"metadata.store": place}
        if kind == "zookeeper":
            where = {"zookeeper.connect": place.removeprefix("zookeeper://"), "zookeeper.session.timeout.ms": "30000"}
        return Cluster(brokers=3, folder=self.folder, options=OPEN | where, min_insync_replicas=2)

    def leave_quorum(self):
        """As the guide says, once its metadata was moved."""
        for folder in self.folder.glob(f"broker-*/{METADATA_FOLDER}"):
            shutil.rmtree(folder)


def filled(tidelog, bootstrap):
    """A topic with an option and RECORDS, what a group has read of them, an ACL and a quota."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("kept", 3, 3, config={"retention.ms": "12345678"})])["kept"].result(PATIENCE_S)
    write(bootstrap, RECORDS)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("kept", index, 40 + index) for index in range(3)], asynchronous=False)
    consumer.close()
    place = ("--bootstrap-server", bootstrap)
    rule = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "kept")
    assert tidelog("acls", *place, "--add", *rule).code == 0
    quota = ("--add-config", "producer_byte_rate=12345678", "--entity-type", "clients", "--entity-name", "fast")
    assert tidelog("configs", *place, "--alter", *quota).code == 0


def write(bootstrap, records):
    """With a transactional producer, which needs a producer ID."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer", "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for record in records:
        producer.produce("kept", record, partition=int(record) % 3)
    producer.commit_transaction(PATIENCE_S)


def described(tidelog, bootstrap):
    """What `filled` made, as the brokers show it."""
    place = ("--bootstrap-server", bootstrap)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "log_level": 0})
    committed = consumer.committed([TopicPartition("kept", index) for index in range(3)], timeout=PATIENCE_S)
    consumer.close()
    features = tidelog("features", *place, "describe").lines
    return {
        "options": tidelog("configs", *place, "--describe", "--topic", "kept").out,
        "quota": tidelog("configs", *place, "--describe", "--entity-type", "clients", "--entity-name", "fast").out,
        "topic": tidelog("topics", *place, "--describe", "--topic", "kept").lines[0],
        "features": [line.partition("Epoch")[0] for line in features if "kraft.version" not in line],
        "offsets": [each.offset for each in committed],
    }


def read_all(bootstrap, wanted):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition("kept", index, 0) for index in range(3)])
    read = []
    while len(read) < len(wanted):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None, message.error()
        read.append(message.value())
    consumer.close()
    return sorted(read, key=int)


def exported(tidelog, place, file):
    """The nodes of the store, by path."""
    result = tidelog("metadata", "export", str(file), "--metadata", place)
    assert result.code == 0, result.err
    return {each["path"]: each for each in map(json.loads, file.read_text().splitlines()[1:])}


def lasting(nodes):
    """Without what changes while brokers run."""
    changing = ("/state", "/controller_epoch", "/latest_producer_id_block")
    return {
        path: node
        for path, node in nodes.items()
        if not path.endswith(changing) and not path.startswith(("/config/changes/", tree.BROKER_DIRECTORIES))
    }


TOKEN = "/delegation_token/tokens/some-token"


def test_a_cluster_moves_between_all_stores_with_all_that_it_has(tidelog, zookeeper, tmp_path):
    stores, records, expected, before = Stores(tmp_path / "cluster", zookeeper), list(RECORDS), {}, {}
    place = stores.new(ROUTE[0])
    user = with_password("alice", MECHANISMS["SCRAM-SHA-256"], "secret", os.urandom)
    scram_users.add(parse_address(place), [user])
    for path in ("/delegation_token", "/delegation_token/tokens", TOKEN):
        assert tidelog("metadata", "set", path, "{}" if path == TOKEN else "", "--metadata", place).code == 0
    for kind, following in zip(ROUTE, [*ROUTE[1:], None], strict=True):
        with stores.cluster(kind, place) as cluster:
            if not expected:
                filled(tidelog, cluster.bootstrap)
                expected = described(tidelog, cluster.bootstrap)
                assert expected["offsets"] == [40, 41, 42]
                busy = tidelog("metadata", "export", str(tmp_path / "busy"), "--metadata", place)
                refused(busy, "Broker 0 is registered: stop the cluster first.")
            cluster.wait_for(lambda: all(len(cluster.in_sync("kept", index)) == 3 for index in range(3)))
            assert read_all(cluster.bootstrap, records) == records
            assert described(tidelog, cluster.bootstrap) == expected
            records.append(b"%d" % len(records))
            write(cluster.bootstrap, records[-1:])
            for number in (2, 1, 0):
                cluster.stop(number)
        file, again = tmp_path / "memory", tmp_path / "again"
        nodes = exported(tidelog, place, file)
        assert TOKEN in nodes
        assert "stored_key=" in nodes[f"{tree.USER_CONFIGS}/alice"]["data"]
        assert any("alice" in node.get("data", "") for path, node in nodes.items() if "acl" in path)
        assert any(json.loads(node["data"]).get("elr") for path, node in nodes.items() if path.endswith("/state"))
        assert lasting(nodes) == (before or lasting(nodes))
        if following is not None:
            before = lasting(nodes)
            if kind == "quorum":
                stores.leave_quorum()
            place = stores.new(following)
            moved = tidelog("metadata", "import", str(file), "--metadata", place)
            assert moved.code == 0, moved.err
            assert exported(tidelog, place, again) == nodes, "the new store has the same, before anything starts"
