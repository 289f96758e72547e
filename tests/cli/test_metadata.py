"""`tidelog metadata`: nodes looked at and changed, exported and imported; on ZooKeeper, too, in test_metadata_java.py."""

import json

import pytest

from tidelog.controller import tree
from tidelog.model import Endpoint
from tidelog.ports import Create
from tidelog.shell.store.store_address import open_store, parse_address

CLUSTER = b'{"version":"1","id":"AAAAAAAAAAAAAAAAAAAAAA"}'


@pytest.fixture
def place(tmp_path):
    return used(f"sqlite:{tmp_path}/metadata.sqlite")


def used(place):
    """A store that brokers have opened before."""
    open_store(parse_address(place), session_timeout_ms=10_000).close()
    return place


@pytest.fixture
def metadata(tidelog, place):
    def call(*arguments, given=b""):
        return tidelog("metadata", *arguments, "--metadata", place, given=given)

    return call


@pytest.fixture
def store(place):
    store = open_store(parse_address(place), session_timeout_ms=60_000)
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
    refused(metadata("rm", "/admin/x"), "Node /admin/x has child nodes; use -r to delete them too.")
    assert metadata("rm", "-r", "/admin/x").code == 0
    refused(metadata("get", "/admin/x"), "Node /admin/x does not exist.")
    refused(metadata("rm", "/admin/x"), "Node /admin/x does not exist.")
    refused(metadata("ls", "/admin/x"), "Node /admin/x does not exist.")


def test_what_cannot_be_is_one_sentence_and_changes_nothing(metadata):
    refused(metadata("set", "/no/where", "x"), "Node /no/where has no parent; nothing was changed.")
    refused(
        metadata("set", "/admin", "x", "--version", "7"), "Node /admin does not have this version; nothing was changed."
    )
    assert metadata("get", "/admin").out == "\n"
    refused(metadata("rm", "-r", "/"), "The root node cannot be deleted.")
    assert "is not a valid path" in metadata("get", "admin/").err


def test_the_store_is_named_once(tidelog, tmp_path):
    assert "One of --data, --metadata and --config is required" in tidelog("metadata", "ls").err
    both = tidelog("metadata", "ls", "--metadata", "sqlite:x", "--data", str(tmp_path))
    assert "cannot be used together" in both.err
    assert (
        "--metadata must be sqlite:PATH or zookeeper://HOST:PORT/CHROOT"
        in tidelog("metadata", "ls", "--metadata", "x").err
    )
    assert "no host and port" in tidelog("metadata", "ls", "--metadata", "zookeeper:///x").err


def test_a_store_that_is_not_there_is_not_made(tidelog, tmp_path):
    missing = tmp_path / "none.sqlite"
    refused(tidelog("metadata", "ls", "--metadata", f"sqlite:{missing}"), f"There is no metadata store at {missing}.")
    assert not missing.exists()


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
    refused(again, "This metadata store already has a cluster: AAAAAAAAAAAAAAAAAAAAAA.")


def test_a_registered_broker_is_in_the_way_and_a_torn_file_is_refused(metadata, store, tidelog, tmp_path):
    file, other = tmp_path / "down", f"sqlite:{tmp_path}/other.sqlite"
    refused(metadata("export", str(file)), "This metadata store has no cluster.")
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
