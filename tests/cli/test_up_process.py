"""`tidelog up` and `tidelog broker` as processes: ready, stopped, killed, started again."""

import json
import os
import re
import shlex
import signal
import socket
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka.admin import AdminClient

from tests.cli.commands import PATIENCE_S, ended, running
from tests.output import line_with, read_line
from tests.waiting import wait_for
from tidelog.shell.transport import Producer


def pid_of(folder, broker):
    return int((folder / f"broker-{broker}" / "pid").read_text())


def test_up_prints_one_line_when_the_cluster_serves_and_stops_cleanly(tmp_path, free_ports):
    (port,) = free_ports(1)
    with running("up", "--brokers", 1, "--data", tmp_path, "--port", port) as process:
        assert read_line(process.stdout) == f"ready 127.0.0.1:{port}\n"
        os.kill(pid_of(tmp_path, 0), 0)
        with Producer(f"127.0.0.1:{port}") as producer:
            producer.send("t", b"v")
            assert [delivery.is_acknowledged for delivery in producer.flush(timeout=PATIENCE_S)] == [True]
        process.terminate()
        assert ended(process) == (0, "")
    assert not (tmp_path / "broker-0" / "pid").exists()


def test_a_broker_that_dies_is_reported_and_restarted(tmp_path):
    with running("up", "--brokers", 2, "--data", tmp_path, "--port", 0, "--restart") as process:
        ready = read_line(process.stdout)
        assert re.fullmatch(r"ready 127\.0\.0\.1:\d+,127\.0\.0\.1:\d+\n", ready)
        pid = pid_of(tmp_path, 1)
        os.kill(pid, signal.SIGKILL)
        assert line_with(process.stderr, "broker 1 (pid") == f"broker 1 (pid {pid}) ended with signal SIGKILL"
        restarted = line_with(process.stderr, "broker 1 restarted")
        assert restarted == f"broker 1 restarted (pid {pid_of(tmp_path, 1)})"


def test_a_taken_port_is_one_sentence_and_exit_code_1(tmp_path):
    with running("up", "--brokers", 1, "--data", tmp_path / "a", "--port", 0) as first:
        port = int(read_line(first.stdout).rpartition(":")[2])
        with running("up", "--brokers", 1, "--data", tmp_path / "b", "--port", port) as second:
            out, err = second.communicate(timeout=PATIENCE_S)
            assert (second.returncode, out) == (1, "")
            assert err == f"Cannot listen on 127.0.0.1:{port}: Address already in use.\n"
        assert not (tmp_path / "b").exists()


def test_a_folder_in_which_a_cluster_runs_is_left_alone(tmp_path, free_ports):
    """It was found out by each broker for itself: options were written over, and the dead one started."""
    ports = free_ports(2)
    with running("up", "--brokers", 2, "--data", tmp_path, "--port", 0) as first:
        read_line(first.stdout)
        os.kill(pid_of(tmp_path, 0), signal.SIGKILL)
        line_with(first.stderr, "broker 0 (pid")
        before = {file: file.read_text() for file in tmp_path.glob("broker-*/server.properties")}
        assert len(before) == 2
        for brokers in (1, 2):
            with running("up", "--brokers", brokers, "--data", tmp_path, "--port", ports[0]) as second:
                out, err = second.communicate(timeout=PATIENCE_S)
            assert (second.returncode, out) == (1, "")
            assert err == f"A cluster is already running in {tmp_path}; stop it with: tidelog down --data {tmp_path}\n"
        assert before == {file: file.read_text() for file in tmp_path.glob("broker-*/server.properties")}
        assert not (tmp_path / "broker-0" / "pid").exists()


def test_a_broker_runs_from_kafkas_own_file(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=4\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\nlog.dirs={tmp_path / 'logs'}\n"
    )
    with running("broker", file, "--override", "num.partitions=2") as process:
        assert "listeners=PLAINTEXT://127.0.0.1:" in line_with(process.stderr, "broker-4 broker.listening")
        line_with(process.stderr, "controller.elected")
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    with running("broker", file, "--override", "num.partitions=x") as process:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out) == (1, "")
        assert err == "num.partitions must be a 32-bit integer of at least 1, not 'x'\n"


def test_a_secured_cluster_is_one_flag(tmp_path):
    users = tmp_path / "users"
    users.write_text("# two\nSCRAM-SHA-256=[name=bob,password=builder]\n\nSCRAM-SHA-512=[name=eve,password=apple]\n")
    up = ("up", "--brokers", 2, "--data", tmp_path / "data", "--port", 0)
    with running(*up, "--secure", "--add-scram", f"@{users}") as process:
        address = read_line(process.stdout).split()[1].partition(",")[0]
        file, example = line_with(process.stderr, "Options of the user"), line_with(process.stderr, "Example: ")
        assert file == f"Options of the user admin, for every client: {tmp_path}/data/security/client.properties"
        command = shlex.split(example.removeprefix("Example: tidelog "))
        assert run_command(*command) == (0, "")
        for user, password, mechanism in (("bob", "builder", "SCRAM-SHA-256"), ("eve", "apple", "SCRAM-SHA-512")):
            options = {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": mechanism,
                "sasl.username": user,
                "sasl.password": password,
                "ssl.ca.location": str(tmp_path / "data/security/ca.pem"),
            }
            assert AdminClient({"bootstrap.servers": address, **options}).list_topics(timeout=60).brokers
        process.terminate()
        assert ended(process) == (0, "")
    with running(*up) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out) == (1, "")
        assert err == f"The cluster in {tmp_path}/data is secured: start it with --secure.\n"
    before = Path(file.split()[-1]).read_text()
    given = "SCRAM-SHA-512=[name=eve,password=orange]"
    with running(*up, "--secure", "--add-scram", given) as process:
        assert read_line(process.stdout).startswith("ready ")
        assert "visible to other users" in read_line(process.stderr)
        assert line_with(process.stderr, "Options of the user") == file
        example = line_with(process.stderr, "Example: ")
        assert run_command(*shlex.split(example.removeprefix("Example: tidelog "))) == (0, "")
    assert Path(file.split()[-1]).read_text() == before


def test_a_secured_quorum_is_two_flags_and_its_credentials_are_for_its_user_only(tmp_path):
    up = ("up", "--brokers", 1, "--data", tmp_path, "--port", 0, "--metadata", "quorum")
    with running(*up, "--secure", "--add-scram", "SCRAM-SHA-512=[name=eve,password=apple]") as process:
        address = read_line(process.stdout).split()[1]
        config = tmp_path / "security" / "client.properties"
        command = ("quorum", "--bootstrap-server", address, "--command-config", config, "describe", "--status")
        assert run_command(*command)[0] == 0
        process.terminate()
        assert ended(process)[0] == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "ca.pem"]
    assert any(path.name == "bootstrap.checkpoint" for path in files)
    assert [path for path in files if path.stat().st_mode & 0o077 and not _is_hidden(path, tmp_path)] == []
    code, out, err = run_with_errors(*up[:-2], "--secure")
    assert (code, out) == (1, "")
    assert "has a metadata quorum: start it with --metadata quorum" in err


def _is_hidden(path, root):
    """Whether others may not even enter one of its folders."""
    return any(
        not folder.stat().st_mode & 0o007 for folder in path.parents if folder.is_relative_to(root) and folder != root
    )


def run_with_errors(*arguments):
    with running(*arguments) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def run_command(*arguments):
    with running(*arguments) as process:
        out, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out


def test_up_without_the_flag_refuses_a_folder_that_was_only_half_secured(tmp_path):
    (tmp_path / "security").mkdir()
    assert run_command("up", "--brokers", 1, "--data", tmp_path, "--port", 0) == (1, "")
    assert not (tmp_path / "broker-0").exists()


def test_up_is_quiet_and_its_logs_are_files(tmp_path):
    with running("up", "--brokers", 2, "--data", tmp_path, "--port", 0) as process:
        ready = read_line(process.stdout)
        pids = [pid_of(tmp_path, broker) for broker in range(2)]
        process.terminate()
        out, err = process.communicate(timeout=PATIENCE_S)
    header, *rows = err.splitlines()
    assert (process.returncode, out, header.split()) == (0, "", ["broker", "address", "pid", "log"])
    assert [row.split() for row in rows] == [
        [str(broker), address, str(pids[broker]), f"{tmp_path}/broker-{broker}.log"]
        for broker, address in enumerate(ready.split()[1].split(","))
    ]
    assert "broker.listening" in (tmp_path / "broker-0.log").read_text()


def test_a_broker_that_refuses_to_start_says_why_although_its_log_is_a_file(tmp_path):
    """Also at the second start, when the log has lines of the first."""
    refused = ("up", "--brokers", 1, "--data", tmp_path, "--port", 0, "--override", "metadata.store=zookeeper://")
    said = []
    for _ in range(2):
        with running(*refused) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out) == (1, "")
        said.append(err)
    assert said[0] == said[1]
    assert "metadata.store" in said[0]
    assert len(said[0].splitlines()) == 1


@pytest.fixture
def in_background(tmp_path):
    """The data folder of three brokers that run in the background, and their addresses."""
    folder = tmp_path / ("a folder whose name has more characters than the kernel allows for a socket " * 2).strip()
    code, out = run_command("up", "--data", folder, "--port", 0, "--detach")
    try:
        assert code == 0
        yield folder, out.removeprefix("ready ").strip()
    finally:
        run_command("down", "--data", folder)


def test_a_cluster_in_the_background(in_background):
    """Its topics have three replicas, a broker that was restarted leads again, and `down` waits for its end."""
    folder, bootstrap = in_background
    place = ("--bootstrap-server", bootstrap)
    pids = [pid_of(folder, broker) for broker in range(3)]
    assert run_command("topics", *place, "--create", "--topic", "t", "--partitions", 6)[0] == 0

    def leaders():
        _, out = run_command("topics", *place, "--describe", "--topic", "t")
        return re.findall(r"Leader: (\d+)\s+Replicas: (\d+),\d+,\d+\s", out)

    assert len(leaders()) == 6
    assert all(leader == first for leader, first in leaders())
    options = run_command("configs", *place, "--describe", "--all", "--topic", "t")[1]
    assert "min.insync.replicas=2 " in options
    assert run_command("broker", "stop", 1, "--data", folder) == (0, "Broker 1 has stopped.\n")
    assert not (folder / "broker-1" / "pid").exists()
    assert "1" not in {leader for leader, _ in leaders()}
    assert run_command("broker", "start", 1, "--data", folder) == (0, "Broker 1 has started.\n")
    assert run_command("broker", "restart", 2, "--data", folder) == (0, "Broker 2 has restarted.\n")
    assert pid_of(folder, 2) != pids[2]
    wait_for(lambda: all(leader == first for leader, first in leaders()), "the first replicas to lead again")
    assert run_command("down", "--data", folder) == (0, f"The cluster in {folder} has stopped.\n")
    assert not list(folder.glob("broker-*/pid"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("broker", "stop", 1), "Broker 1 is not running."),
        (("broker", "restart", 1), "Broker 1 is not running."),
        (("broker", "start", 0), r"Broker 0 is already running \(pid \d+\)\."),
        (("broker", "stop", 2), r"There is no broker 2; this cluster has brokers 0 to 1\."),
    ],
)
def test_what_a_broker_cannot_do_is_one_sentence(half_a_cluster, arguments, sentence):
    with running(*arguments, "--data", half_a_cluster) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (1, "")
    assert re.fullmatch(sentence + "\n", err)


@pytest.fixture(scope="module")
def half_a_cluster(tmp_path_factory):
    """The data folder of a cluster of two brokers, one of which is stopped; it stays so although there is --restart."""
    folder = tmp_path_factory.mktemp("half")
    with running("up", "--brokers", 2, "--data", folder, "--port", 0, "--restart") as process:
        assert read_line(process.stdout).startswith("ready ")
        assert run_command("broker", "stop", 1, "--data", folder)[0] == 0
        yield folder


def test_without_a_cluster_its_commands_say_so(tmp_path):
    for command in (("down",), ("broker", "start", 0)):
        for folder in (tmp_path, tmp_path / "missing"):
            with running(*command, "--data", folder) as process:
                out, err = process.communicate(timeout=PATIENCE_S)
            assert (process.returncode, out) == (1, "")
            assert err == f"No cluster of `tidelog up` is running in {folder}.\n"


def test_up_serves_a_console_that_ends_with_it(tmp_path):
    arguments = ("--brokers", 1, "--data", tmp_path, "--port", 0, "--console", "--console-port", 0)
    with running("up", *arguments) as process:
        place, token = line_with(process.stderr, "Console: ").removeprefix("Console: ").split("#token=")
        assert read_line(process.stdout).startswith("ready ")

        def answer(given):
            request = Request(f"{place}api/session", headers={"authorization": f"Bearer {given}"})
            with urlopen(request, timeout=PATIENCE_S) as found:
                return json.load(found)

        session = answer(token)
        assert session["allow_changes"]
        assert session["header"]["brokers"] == 1
        with pytest.raises(HTTPError, match="401"):
            answer("wrong")
        process.kill()
        process.wait()

        def gone():
            try:
                answer(token)
            except (URLError, ConnectionError):
                return True

        wait_for(gone, "the console to end with a supervisor that was killed")


def test_a_console_that_cannot_listen_ends_up(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("--brokers", 1, "--data", tmp_path, "--port", 0, "--console", "--console-port", port)
        with running("up", *arguments) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (1, "")
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use. Use --port for another port." in err
