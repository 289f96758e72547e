"""`tidelog up` and `tidelog broker` as processes: ready, stopped, killed, started again."""

import os
import re
import shlex
import signal
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.cli.commands import PATIENCE_S, ended, line_with, running
from tidelog.shell.transport import Producer


def pid_of(folder, broker):
    return int((folder / f"broker-{broker}" / "pid").read_text())


def test_up_prints_one_line_when_the_cluster_serves_and_stops_cleanly(tmp_path, free_ports):
    (port,) = free_ports(1)
    with running("up", "--brokers", 1, "--data", tmp_path, "--port", port) as process:
        assert process.stdout.readline() == f"ready 127.0.0.1:{port}\n"
        os.kill(pid_of(tmp_path, 0), 0)
        with Producer(f"127.0.0.1:{port}") as producer:
            producer.send("t", b"v")
            assert [delivery.is_acknowledged for delivery in producer.flush(timeout=PATIENCE_S)] == [True]
        process.terminate()
        assert ended(process) == (0, "")
    assert not (tmp_path / "broker-0" / "pid").exists()


def test_a_broker_that_dies_is_reported_and_restarted(tmp_path):
    with running("up", "--brokers", 2, "--data", tmp_path, "--port", 0, "--restart") as process:
        ready = process.stdout.readline()
        assert re.fullmatch(r"ready 127\.0\.0\.1:\d+,127\.0\.0\.1:\d+\n", ready)
        pid = pid_of(tmp_path, 1)
        os.kill(pid, signal.SIGKILL)
        assert line_with(process.stderr, "broker 1 (pid") == f"broker 1 (pid {pid}) ended with signal SIGKILL"
        restarted = line_with(process.stderr, "broker 1 restarted")
        assert restarted == f"broker 1 restarted (pid {pid_of(tmp_path, 1)})"


def test_a_taken_port_is_one_sentence_and_exit_code_1(tmp_path):
    with running("up", "--brokers", 1, "--data", tmp_path / "a", "--port", 0) as first:
        port = int(first.stdout.readline().rpartition(":")[2])
        with running("up", "--brokers", 1, "--data", tmp_path / "b", "--port", port) as second:
            out, err = second.communicate(timeout=PATIENCE_S)
            assert (second.returncode, out) == (1, "")
            assert err == f"Cannot listen on 127.0.0.1:{port}: Address already in use.\n"
        assert not (tmp_path / "b").exists()


def test_a_folder_in_which_a_cluster_runs_is_left_alone(tmp_path, free_ports):
    """It was found out by each broker for itself: options were written over, and the dead one started."""
    ports = free_ports(2)
    with running("up", "--brokers", 2, "--data", tmp_path, "--port", 0) as first:
        first.stdout.readline()
        os.kill(pid_of(tmp_path, 0), signal.SIGKILL)
        line_with(first.stderr, "broker 0 (pid")
        before = {file: file.read_text() for file in tmp_path.glob("broker-*/server.properties")}
        assert len(before) == 2
        for brokers in (1, 2):
            with running("up", "--brokers", brokers, "--data", tmp_path, "--port", ports[0]) as second:
                out, err = second.communicate(timeout=PATIENCE_S)
            assert (second.returncode, out) == (1, "")
            assert (
                err == f"A cluster is already running in {tmp_path}: {tmp_path}/broker-1 is used by another process.\n"
            )
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
        ready, file, example = (process.stdout.readline() for _ in range(3))
        address = ready.split()[1].partition(",")[0]
        assert file == f"Options of the user admin, for every client: {tmp_path}/data/security/client.properties\n"
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
        assert process.stdout.readline().startswith("ready ")
        assert process.stdout.readline() == file
        example = process.stdout.readline()
        assert run_command(*shlex.split(example.removeprefix("Example: tidelog "))) == (0, "")
        assert "visible to other users" in process.stderr.readline()
    assert Path(file.split()[-1]).read_text() == before


def run_command(*arguments):
    with running(*arguments) as process:
        out, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out


def test_up_without_the_flag_refuses_a_folder_that_was_only_half_secured(tmp_path):
    (tmp_path / "security").mkdir()
    assert run_command("up", "--brokers", 1, "--data", tmp_path, "--port", 0) == (1, "")
    assert not (tmp_path / "broker-0").exists()
