"""What keeps a broker from starting is one sentence and exit code 1."""

import socket

import pytest

from tidelog.shell.broker import load_config, main
from tidelog.shell.disk import lock_folder
from tidelog.shell.hosting import store_path
from tidelog.shell.supervisor import up

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


def test_a_damaged_store(refused, tmp_path):
    (tmp_path / "metadata.sqlite").write_bytes(b"garbage " * 1000)
    line = refused()
    assert line.startswith(f"The metadata store {tmp_path}/metadata.sqlite cannot be opened: ")


def test_options_that_cannot_be(refused, file, capsys):
    assert "log.segment.bytes" in refused("log.segment.bytes=-5")
    assert "key=value" in refused("nonsense")
    assert "LISTENER" in refused("listeners=LISTENER://127.0.0.1:0")
    assert refused("listeners=SSL://127.0.0.1:0") == "Listener SSL asks for SSL; only PLAINTEXT is served."
    assert refused("metadata.store=etcd:x") == "metadata.store must be sqlite:PATH, not etcd:x."
    assert main([str(file.with_name("missing"))]) == 1
    assert "missing" in capsys.readouterr().err


def test_the_store_stands_beside_the_logs_where_nothing_says_otherwise(tmp_path):
    file = tmp_path / "a.properties"
    file.write_text(f"node.id=0\nlog.dirs={tmp_path}/kafka-logs\n")
    assert store_path(load_config(file)) == tmp_path / "kafka-logs-metadata" / "metadata.sqlite"
    assert store_path(load_config(file, ["metadata.store=sqlite:/x/y"])).as_posix() == "/x/y"


def test_a_refusal_of_a_whole_cluster_is_the_brokers_sentence_alone(tmp_path, capfd):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert up(tmp_path, brokers=1, port=port) == 1
    told = capfd.readouterr()
    assert (told.out, told.err) == ("", f"Cannot listen on 127.0.0.1:{port}: Address already in use.\n")
