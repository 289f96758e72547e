"""What keeps a broker from starting is one sentence and exit code 1."""

import os
import socket

import pytest

from tidelog.cli.brokers.running_cluster import up
from tidelog.cli.main import run
from tidelog.shell.broker import load_config, main
from tidelog.shell.disk import FolderLocked, OsDisk, lock_folder
from tidelog.shell.log_dir_lock import LogDirLock
from tidelog.shell.store.store_address import SqliteAddress, ZookeeperAddress, address_of, parse_address

OTHER_CLUSTER = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=0\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text(
        f"node.id=0\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/logs\n"
        f"metadata.store=sqlite:{tmp_path}/metadata.sqlite\n"
    )
    return path


@pytest.fixture
def refused(file, capsys):
    def sentence(*overrides):
        assert main([str(file), *overrides]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return sentence


def test_a_port_in_use(refused):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused(f"listeners=PLAINTEXT://127.0.0.1:{port}")
    assert line == f"Cannot listen on 127.0.0.1:{port}: Address already in use."


def test_the_port_between_brokers_in_use(refused):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused(f"listeners=PLAINTEXT://127.0.0.1:0,REPLICATION://127.0.0.1:{port}")
    assert line == f"Cannot listen between brokers on 127.0.0.1:{port}: Address already in use."


def test_a_locked_folder(refused, tmp_path):
    (tmp_path / "logs").mkdir()
    release = lock_folder(str(tmp_path / "logs"))
    assert refused() == f"Log folder {tmp_path}/logs is used by another process."
    release()


def test_a_folder_that_cannot_be_made(refused, tmp_path):
    (tmp_path / "logs").write_text("a file")
    assert refused().startswith(f"Log folder {tmp_path}/logs cannot be used: ")


def test_a_folder_of_another_cluster(refused, tmp_path):
    (tmp_path / "logs").mkdir()
    meta = tmp_path / "logs" / "meta.properties"
    meta.write_text(OTHER_CLUSTER)
    assert refused().startswith(f"Log folder {tmp_path}/logs belongs to cluster AAAAAAAAAAAAAAAAAAAAAA, not to ")
    meta.write_text("version=9\n")
    assert "version '9' is not known" in refused()


def test_a_folder_of_another_broker(refused, tmp_path):
    (tmp_path / "logs").mkdir()
    meta = tmp_path / "logs" / "meta.properties"
    meta.write_text(OTHER_CLUSTER)
    cluster = refused().split()[-1].rstrip(".")
    meta.write_text(f"version=1\ncluster.id={cluster}\nnode.id=7\n")
    assert refused() == f"Log folder {tmp_path}/logs belongs to broker 7, not to 0."


def test_copies_of_a_folder(refused, tmp_path):
    for name in ("logs", "more"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text(OTHER_CLUSTER)
    cluster = refused(f"log.dirs={tmp_path}/logs,{tmp_path}/more").split()[-1].rstrip(".")
    for name in ("logs", "more"):
        (tmp_path / name / "meta.properties").write_text(OTHER_CLUSTER.replace("A" * 22, cluster))
    line = refused(f"log.dirs={tmp_path}/logs,{tmp_path}/more")
    assert line == f"Log folders {tmp_path}/logs and {tmp_path}/more have the same directory.id."


def test_a_folder_that_refuses_is_left_out_and_the_others_get_an_id_each(tmp_path):
    (tmp_path / "broken").write_text("a file")
    (tmp_path / "unreadable").mkdir()
    (tmp_path / "unreadable" / "meta.properties").mkdir()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "meta.properties").write_text("version=0\ncluster.id=c\nbroker.id=0\n")
    names = ("broken", "good", "unreadable", "old")
    log_dir_lock = LogDirLock(OsDisk([f"{tmp_path}/{name}" for name in names]))
    log_dir_lock.lock()
    log_dir_lock.check_identity("c", 0, os.urandom)
    assert sorted(log_dir_lock.offline) == [f"{tmp_path}/broken", f"{tmp_path}/unreadable"]
    assert log_dir_lock.directories.keys() == {f"{tmp_path}/good", f"{tmp_path}/old"}
    ids = [(tmp_path / name / "meta.properties").read_text().splitlines()[-1] for name in ("good", "old")]
    assert all(line.startswith("directory.id=") for line in ids)
    assert len(set(ids)) == 2
    with pytest.raises(FolderLocked):
        lock_folder(f"{tmp_path}/good")
    log_dir_lock.release()
    lock_folder(f"{tmp_path}/good")()


def test_folders_are_named_by_their_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "a.properties"
    file.write_text("node.id=0\nlog.dirs=one,/two/\n")
    assert load_config(file).folders == [f"{tmp_path}/one", "/two"]
    file.write_text("node.id=0\nlog.dir=one\n")
    assert load_config(file).folders == [f"{tmp_path}/one"]
    assert "log.dirs" not in load_config(file).properties, "DescribeConfigs would say that it was given"


def test_a_damaged_store(refused, tmp_path):
    (tmp_path / "metadata.sqlite").write_bytes(b"garbage " * 1000)
    line = refused()
    assert line.startswith(f"The metadata store {tmp_path}/metadata.sqlite cannot be opened: ")


def test_options_that_cannot_be(refused, file, capsys):
    assert "log.segment.bytes" in refused("log.segment.bytes=-5")
    assert "key=value" in refused("nonsense")
    assert "LISTENER" in refused("listeners=LISTENER://127.0.0.1:0")
    both = "listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
    assert "sasl.enabled.mechanisms: GSSAPI is not supported" in refused(both)
    places = "sqlite:PATH or zookeeper://HOST:PORT/CHROOT"
    assert refused("metadata.store=etcd:x") == f"metadata.store must be {places}, not etcd:x."
    assert main([str(file.with_name("missing"))]) == 1
    assert "missing" in capsys.readouterr().err


def test_the_store_stands_beside_the_logs_where_nothing_says_otherwise(tmp_path):
    file = tmp_path / "a.properties"
    file.write_text(f"node.id=0\nlog.dirs={tmp_path}/kafka-logs\n")
    assert address_of(load_config(file)) == SqliteAddress(tmp_path / "kafka-logs-metadata" / "metadata.sqlite")
    assert str(address_of(load_config(file, ["metadata.store=sqlite:/x/y"]))) == "sqlite:/x/y"


def test_a_refusal_of_a_whole_cluster_is_the_brokers_sentence_alone(tmp_path, capfd):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert up(tmp_path, brokers=1, port=port) == 1
    told = capfd.readouterr()
    assert (told.out, told.err) == ("", f"Cannot listen on 127.0.0.1:{port}: Address already in use.\n")


def test_two_memories_of_one_cluster(refused, tmp_path, tidelog):
    line = refused("zookeeper.connect=127.0.0.1:2181/kafka")
    places = f"metadata.store=sqlite:{tmp_path}/metadata.sqlite and zookeeper.connect=127.0.0.1:2181/kafka"
    assert line == f"{places} name two metadata stores: set only one."
    assert not (tmp_path / "logs").exists()
    for name in ("zookeeper.connect", "metadata.store"):
        up_with = ["up", "--data", str(tmp_path / "c"), "--metadata", "sqlite:x", "--override", f"{name}=y"]
        result = tidelog(*up_with)
        assert result[0] == 1
        assert f"--metadata and the option {name} both name a metadata store; remove one of them." in result[1]


def test_a_zookeeper_that_is_none(refused, free_ports, file):
    file.write_text(file.read_text().replace("metadata.store=", "#"))
    (port,) = free_ports(1)
    line = refused(f"zookeeper.connect=127.0.0.1:{port}/kafka", "zookeeper.connection.timeout.ms=300")
    assert line == f"ZooKeeper cannot be reached at 127.0.0.1:{port} within 300 ms."
    for text in ("localhost", "localhost:0/x", "a:1,b", ":2181", "h:99999"):
        assert refused(f"zookeeper.connect={text}").startswith(
            f"zookeeper.connect must be HOST:PORT,HOST:PORT/CHROOT, not {text}: "
        )
    assert refused("zookeeper.connect=h:1/a/../b").endswith("the chroot contains '.' or '..'.")
    assert "zookeeper.session.timeout.ms" in refused("zookeeper.connect=h:1", "zookeeper.session.timeout.ms=0")


def test_a_place_is_read_as_kafka_reads_it(file):
    def place(text):
        return address_of(load_config(file, [f"zookeeper.connect={text}"]))

    file.write_text(file.read_text().replace("metadata.store=", "#"))
    assert place("a:1,b:2, c:3/x//y/") == ZookeeperAddress("a:1,b:2,c:3", "/x/y")
    assert place("[::1]:2181") == ZookeeperAddress("[::1]:2181", "")
    assert place("a:1/") == parse_address("zookeeper://a:1")


@pytest.fixture
def tidelog(capsys):
    """A command line → exit code and what it said."""

    def call(*arguments):
        code = run(arguments)
        return code, capsys.readouterr().err

    return call
