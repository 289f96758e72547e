"""`tidelog metadata` on the log of a stopped metadata quorum, and into a new one; all stores in test_metadata_java.py."""

import shutil

import pytest

from tests.ports import free_ports
from tests.waiting import wait_for
from tidelog.controller import tree
from tidelog.quorum.formatting import METADATA_FOLDER
from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of a cluster of three, two of which were killed and one stopped."""
    folder = tmp_path_factory.mktemp("quorum")
    with Cluster(brokers=3, folder=folder, metadata="quorum") as cluster:
        cluster.create_topic("kept", partitions=2)
        cluster.stop(0)
    return folder


def options(path, folder, node=0, **more):
    port = free_ports(1)[0]
    given = {
        "process.roles": "broker,controller",
        "node.id": node,
        "log.dirs": folder,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
    } | {name.replace("_", "."): value for name, value in more.items()}
    path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    return str(path)


def refused(result, sentence):
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(sentence), result.err
    assert result.err.count("\n") == 1


def test_the_tree_of_a_stopped_quorum_is_read_without_sessions_and_without_a_change(stopped, tidelog, tmp_path):
    before = contents(stopped)
    place = ("--data", str(stopped))
    assert tidelog("metadata", "ls", "/brokers/topics", *place).out == "kept\n"
    assert tidelog("metadata", "ls", "/brokers/ids", *place).out == ""
    assert '"isr"' in tidelog("metadata", "get", tree.state_path("kept", 1), *place).out
    assert tidelog("metadata", "export", str(tmp_path / "file"), *place).code == 0
    text = (tmp_path / "file").read_text()
    assert '"/controller"' not in text
    assert "/brokers/topics/kept/partitions/1/state" in text
    for command in (("set", "/admin/x", "1"), ("rm", "/admin")):
        refused(tidelog("metadata", *command, *place), "The log of a metadata quorum cannot be edited")
    assert contents(stopped) == before


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_one_of_three_controllers_is_not_enough_but_with_a_copy_of_another(stopped, tidelog, tmp_path):
    file = options(tmp_path / "server.properties", stopped / "broker-0")
    result = tidelog("metadata", "export", str(tmp_path / "file"), "--config", file)
    refused(
        result, "1 of 3 controllers may lack what the others committed: copy log directories of controllers 1, 2 here"
    )
    copy = shutil.copytree(stopped / "broker-1", tmp_path / "copy")
    with_copy = ("--config", file, "--replica", str(copy))
    assert tidelog("metadata", "export", str(tmp_path / "file"), *with_copy).code == 0
    assert tidelog("metadata", "export", str(tmp_path / "all"), "--metadata", f"quorum:{stopped}").code == 0
    assert (tmp_path / "file").read_text() == (tmp_path / "all").read_text()
    foreign = tmp_path / "foreign"
    with Cluster(brokers=1, folder=foreign, metadata="quorum"):
        pass
    result = tidelog("metadata", "export", str(tmp_path / "mixed"), *with_copy, "--replica", str(foreign / "broker-0"))
    refused(result, "The log directories belong to different clusters: ")


def test_a_damaged_log_a_running_node_and_a_folder_without_a_quorum_are_one_sentence(stopped, tidelog, tmp_path):
    damaged = shutil.copytree(stopped, tmp_path / "damaged")
    (damaged / "broker-1" / METADATA_FOLDER / "quorum-state").write_text("{")
    for_file = str(tmp_path / "file")
    result = tidelog("metadata", "export", for_file, "--data", str(damaged))
    refused(result, f"{damaged}/broker-1/{METADATA_FOLDER}/quorum-state: not a quorum state; restore the file")
    refused(
        tidelog("metadata", "export", for_file, "--metadata", f"quorum:{tmp_path}"),
        "No cluster of `tidelog up` was ever",
    )
    with Cluster(brokers=1, folder=tmp_path / "one", metadata="quorum"):
        result = tidelog("metadata", "export", for_file, "--data", str(tmp_path / "one"))
    refused(result, f"Log directory {tmp_path}/one/broker-0 is used by another process: stop the cluster first.")
    assert not (tmp_path / "file").exists()


def test_a_new_quorum_begins_in_one_controller_and_others_are_refused(stopped, tidelog, tmp_path):
    file = str(tmp_path / "file")
    assert tidelog("metadata", "export", file, "--data", str(stopped)).code == 0
    folder = tmp_path / "new"
    config = options(tmp_path / "server.properties", folder)
    for more, sentence in (
        ({"controller_quorum_voters": "0@a:1,1@b:2"}, "controller.quorum.voters names other controllers, too: set "),
        (
            {"process_roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:0"},
            "Only a controller can be the first node",
        ),
        ({"log_dirs": stopped / "broker-1"}, f"Log directory {stopped}/broker-1 belongs to node 1 of cluster "),
        ({"log_dirs": stopped / "broker-0"}, f"Log directory {stopped}/broker-0 already has a metadata log; if its "),
    ):
        wrong = options(tmp_path / "wrong", folder, **more)
        refused(tidelog("metadata", "import", file, "--config", wrong), sentence)
    assert not folder.exists()
    assert tidelog("metadata", "import", file, "--config", config).code == 0
    again = str(tmp_path / "again")
    assert tidelog("metadata", "export", again, "--config", config).code == 0
    assert sorted((tmp_path / "again").read_text().splitlines()) == sorted((tmp_path / "file").read_text().splitlines())
    refused(
        tidelog("metadata", "import", file, "--config", config), f"Log directory {folder} already has a metadata log"
    )


def test_a_cluster_goes_on_in_a_new_quorum(stopped, tidelog, tmp_path):
    file, folder = str(tmp_path / "file"), shutil.copytree(stopped, tmp_path / "moved")
    assert tidelog("metadata", "export", file, "--data", str(folder)).code == 0
    for metadata in folder.glob(f"broker-*/{METADATA_FOLDER}"):
        shutil.rmtree(metadata)
    assert tidelog("metadata", "import", file, "--metadata", f"quorum:{folder}").code == 0
    with Cluster(brokers=3, folder=folder, metadata="quorum") as cluster:
        wait_for(lambda: len(cluster.in_sync("kept", 1)) == 3, "all replicas in sync")
