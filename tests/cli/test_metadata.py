"""`tidelog metadata` on either store: nodes looked at and changed, and a cluster that moves from one to the other."""

import json
from itertools import count

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.waiting import PATIENCE_S, wait_for
from tidelog.controller import tree
from tidelog.model import Endpoint
from tidelog.ports import Create
from tidelog.shell.store.places import open_place, parse_place
from tidelog.shell.supervisor import Supervisor

CHROOTS = count()
CLUSTER = b'{"version":"1","id":"AAAAAAAAAAAAAAAAAAAAAA"}'


def on_sqlite(request, folder):
    return f"sqlite:{folder}/metadata.sqlite"


def on_zookeeper(request, folder):
    return f"zookeeper://{request.getfixturevalue('zookeeper').hosts}/cli/{next(CHROOTS)}"


@pytest.fixture(params=[on_sqlite, on_zookeeper])
def place(request, tmp_path):
    """A store that brokers have opened before."""
    text = request.param(request, tmp_path)
    open_place(parse_place(text), session_timeout_ms=10_000).close()
    return text


@pytest.fixture
def metadata(tidelog, place):
    def call(*arguments, given=b""):
        return tidelog("metadata", *arguments, "--metadata", place, given=given)

    return call


@pytest.fixture
def store(place):
    store = open_place(parse_place(place), session_timeout_ms=60_000)
    yield store
    store.close()


def refused(result, sentence):
    assert (result.code, result.out, result.err.strip()) == (1, "", sentence)


def test_nodes_are_listed_read_written_and_deleted(metadata):
    assert metadata("ls").lines[:3] == ["admin", "brokers", "cluster"]
    assert metadata("set", "/admin/x", "one").code == 0
    assert metadata("set", "/admin/x", "-", given=b"two").code == 0
    assert metadata("get", "/admin/x").out == "two\n"
    assert metadata("get", "/admin/x", "--stat").err.startswith("version=1 created=")
    assert metadata("set", "/admin/x/y", "").code == 0
    assert metadata("ls", "/admin").lines == ["delete_topics", "x"]
    assert metadata("ls", "-R", "/admin").lines == ["/admin", "/admin/delete_topics", "/admin/x", "/admin/x/y"]
    refused(metadata("rm", "/admin/x"), "Node /admin/x has nodes below it; -r deletes them, too.")
    assert metadata("rm", "-r", "/admin/x").code == 0
    refused(metadata("get", "/admin/x"), "There is no node /admin/x.")
    refused(metadata("rm", "/admin/x"), "There is no node /admin/x.")
    refused(metadata("ls", "/admin/x"), "There is no node /admin/x.")


def test_what_cannot_be_is_one_sentence_and_changes_nothing(metadata):
    refused(metadata("set", "/no/where", "x"), "Node /no/where has no parent; nothing was done.")
    refused(
        metadata("set", "/admin", "x", "--version", "7"), "Node /admin does not have this version; nothing was done."
    )
    assert metadata("get", "/admin").out == "\n"
    refused(metadata("rm", "-r", "/"), "The root cannot be deleted.")
    assert "is no path of a node" in metadata("get", "admin/").err


def test_the_store_is_named_once(tidelog, tmp_path):
    assert "Say which store" in tidelog("metadata", "ls").err
    both = tidelog("metadata", "ls", "--metadata", "sqlite:x", "--data", str(tmp_path))
    assert "exclude each other" in both.err
    assert (
        "--metadata must be sqlite:PATH or zookeeper://HOST:PORT/CHROOT"
        in tidelog("metadata", "ls", "--metadata", "x").err
    )
    assert "no host and port" in tidelog("metadata", "ls", "--metadata", "zookeeper:///x").err


def test_a_store_that_is_not_there_is_not_made(tidelog, tmp_path):
    missing = tmp_path / "none.sqlite"
    refused(tidelog("metadata", "ls", "--metadata", f"sqlite:{missing}"), f"There is no metadata store at {missing}.")
    assert not missing.exists()


def test_a_chroot_that_is_not_there_is_not_made(tidelog, zookeeper):
    hosts = zookeeper.hosts
    result = tidelog("metadata", "ls", "--metadata", f"zookeeper://{hosts}/none")
    refused(result, f"ZooKeeper has no node /none, the chroot of zookeeper://{hosts}/none.")
    result = tidelog("metadata", "ls", "--metadata", f"zookeeper://{hosts}/none")
    assert result.code == 1


def test_a_tree_is_written_down_and_read_back_without_broker_epochs(metadata, store, tidelog, tmp_path):
    state = tree.LeadershipState(1, 4, (1, 0), (77, 78), 3)
    parts = ["/brokers/topics/t", "/brokers/topics/t/partitions", "/brokers/topics/t/partitions/0"]
    nodes = [Create(tree.CLUSTER_ID, CLUSTER), *(Create(path) for path in parts)]
    nodes += [Create(tree.state_path("t", 0), tree.format_state(state)), Create("/cluster/odd", b"\xff\x00")]
    nodes.append(Create(tree.CONTROLLER, b"{}", ephemeral=True))
    assert store.apply(nodes).outcome == "ok"
    file, other = tmp_path / "down", f"sqlite:{tmp_path}/other.sqlite"
    assert metadata("export", str(file)).code == 0
    assert '/controller"' not in file.read_text()
    assert tidelog("metadata", "import", str(file), "--metadata", other).code == 0
    known = json.loads(tidelog("metadata", "get", tree.state_path("t", 0), "--metadata", other).out)
    assert (known["leader"], known["leader_epoch"], known["isr"], known["isr_epochs"]) == (1, 4, [1, 0], [-1, -1])
    assert tidelog("metadata", "export", str(tmp_path / "again"), "--metadata", other).code == 0
    assert (tmp_path / "again").read_text() == file.read_text()
    again = tidelog("metadata", "import", str(file), "--metadata", other)
    refused(again, "This metadata store has a cluster already, AAAAAAAAAAAAAAAAAAAAAA.")


def test_a_registered_broker_is_in_the_way_and_a_torn_file_is_refused(metadata, store, tidelog, tmp_path):
    file, other = tmp_path / "down", f"sqlite:{tmp_path}/other.sqlite"
    refused(metadata("export", str(file)), "No cluster ever used this metadata store.")
    registration = tree.format_registration(tree.Registration((Endpoint("A", "PLAINTEXT", "h", 1),)), 0)
    assert store.apply([Create(tree.CLUSTER_ID, CLUSTER)]).outcome == "ok"
    assert metadata("export", str(file)).code == 0
    assert store.apply([Create(tree.broker_path(3), registration, ephemeral=True)]).outcome == "ok"
    refused(metadata("export", str(tmp_path / "no")), "Broker 3 is registered: stop the cluster first.")
    assert not (tmp_path / "no").exists()
    lines = file.read_text().splitlines(keepends=True)
    for text in ("".join(lines[:-1]), "", "{}\n", "hello\n"):
        file.write_text(text)
        result = tidelog("metadata", "import", str(file), "--metadata", other)
        assert (result.code, result.err.count("\n")) == (1, 1), result
    file.write_text("".join(lines))
    assert tidelog("metadata", "import", str(file), "--metadata", other).code == 0


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
