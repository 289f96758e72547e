"""Real broker processes: one, and a supervised cluster, through starts, kills, restarts and ends."""

import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.output import line_with, read_line
from tests.waiting import PATIENCE_S, wait_for
from tidelog.shell.supervisor import MetadataView, NotReady, Supervisor, is_complete, metadata_view

UP = """
import sys
from tidelog.cli.brokers.running_cluster import up
sys.exit(up(sys.argv[1], brokers=int(sys.argv[2]), port=0, restart="restart" in sys.argv, verbose=True))
"""


@pytest.fixture
def up(tmp_path):
    """`tidelog up` as a process of its own, with what it printed first; its children never outlive the test."""
    started = []

    def start(brokers, *words):
        command = [sys.executable, "-c", UP, str(tmp_path), str(brokers), *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process, read_line(process.stdout)

    yield start
    for process in started:
        process.kill()
        process.communicate()


def pids(tmp_path):
    return [int(file.read_text()) for file in sorted(tmp_path.glob("broker-*/pid"))]


def wait_gone(numbers):
    for number in numbers:
        try:
            descriptor = os.pidfd_open(number)
        except ProcessLookupError:
            continue
        with os.fdopen(descriptor, "rb") as pidfd:
            poller = select.poll()
            poller.register(pidfd, 1)
            assert poller.poll(PATIENCE_S * 1000), f"process {number} lives"


def await_view(child, view):
    wait_for(lambda: metadata_view(child.host, child.port) == view, f"{child} to see {view}")


def await_complete(child, brokers):
    """Until it knows all of these, one of which leads."""
    wait_for(
        lambda: is_complete(metadata_view(child.host, child.port), frozenset(brokers)), f"{child} to know {brokers}"
    )


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three brokers, whose overrides have tests of their own; who kills one starts it again."""
    overrides = {"inter.broker.listener.name": "PLAINTEXT", "num.partitions": "7"}
    with Supervisor(tmp_path_factory.mktemp("three"), brokers=3, port=0, overrides=overrides) as running:
        yield running


def test_three_brokers_are_ready_when_each_knows_all_and_one_leads(three):
    """On a listener of their own, although the clients' is the one that is named for them."""
    for child in three.children:
        await_complete(child, {0, 1, 2})
    assert pids(three.folder) == [child.pid for child in three.children]


def test_overrides_reach_every_broker(three):
    for number in range(3):
        assert "num.partitions=7\n" in (three.folder / f"broker-{number}" / "server.properties").read_text()


def test_an_idle_cluster_costs_almost_nothing(three):
    spent = []
    for _ in range(15):  # the first of them may still be about the start
        before = sum(_cpu_s(child.pid) for child in three.children)
        threading.Event().wait(1)
        spent.append(sum(_cpu_s(child.pid) for child in three.children) - before)
        if spent[-1] < 0.05:
            return
    raise AssertionError(spent)


def _cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_killed_broker_is_gone_from_the_others_view_and_comes_back_on_its_port(three):
    controller = metadata_view(three.children[0].host, three.children[0].port).controller
    first, second = three.children[controller], three.children[(controller + 1) % 3]
    port = second.port
    three.kill(second.number)
    await_view(first, MetadataView(frozenset({0, 1, 2} - {second.number}), controller))
    three.start_broker(second.number)
    three.wait_ready()
    assert second.port == port
    await_complete(second, {0, 1, 2})


def test_a_paused_broker_is_given_up_after_its_term_and_returns_as_a_new_life(tmp_path):
    with Supervisor(tmp_path, brokers=2, port=0, overrides={"broker.session.timeout.ms": "3000"}) as cluster:
        judge, paused = cluster.children
        paused.signal(signal.SIGSTOP)
        await_view(judge, MetadataView(frozenset({0}), 0))
        paused.signal(signal.SIGCONT)
        await_complete(judge, {0, 1})
        await_complete(paused, {0, 1})


def test_data_and_identity_outlive_a_clean_stop(tmp_path):
    with Supervisor(tmp_path, brokers=1, port=0) as cluster:
        meta = (tmp_path / "broker-0" / "meta.properties").read_text()
    assert (pids(tmp_path), cluster.children[0].process) == ([], None)
    assert (tmp_path / "broker-0" / ".kafka_cleanshutdown").exists()
    with Supervisor(tmp_path, brokers=1, port=0):
        assert (tmp_path / "broker-0" / "meta.properties").read_text() == meta
        assert not (tmp_path / "broker-0" / ".kafka_cleanshutdown").exists()


def test_a_broker_that_is_told_to_stop_the_moment_it_listens_stops(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(f"node.id=0\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/logs\n")
    command = [sys.executable, "-m", "tidelog.shell.broker", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert read_line(process.stdout).startswith(b"listening PLAINTEXT://127.0.0.1:")
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


def test_up_prints_one_ready_line_and_ends_cleanly_on_sigterm(up, tmp_path):
    process, line = up(2)
    assert line.startswith("ready 127.0.0.1:")
    assert line.count(":") == 2
    brokers = pids(tmp_path)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output) == (0, "")
    assert "ended" not in errors
    wait_gone(brokers)


def test_brokers_end_with_a_killed_supervisor(up, tmp_path):
    process, _ = up(2)
    brokers = pids(tmp_path)
    process.kill()
    wait_gone(brokers)
    assert (tmp_path / "broker-0" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("words", [(), ("restart",)])
def test_a_dead_broker_is_reported_and_restarted_only_if_asked(up, tmp_path, words):
    process, _ = up(1, *words)
    (before,) = pids(tmp_path)
    os.kill(before, signal.SIGKILL)
    line = line_with(process.stderr, "ended")
    assert line == f"broker 0 (pid {before}) ended with signal SIGKILL"
    if words:
        line_with(process.stderr, "restarted")
        (after,) = pids(tmp_path)
        assert after != before
        line_with(process.stderr, "broker.listening")
    else:
        assert pids(tmp_path) == []


def test_a_cluster_that_cannot_start_says_why_and_leaves_nothing_behind(tmp_path):
    with Supervisor(tmp_path / "a", brokers=1, port=0) as running:
        taken = running.children[0].port
        other = Supervisor(tmp_path / "b", brokers=1, port=taken)
        with pytest.raises(NotReady, match=rf"Cannot listen on 127\.0\.0\.1:{taken}: Address already in use\."):
            other.start()
        assert other.children[0].process is None
        assert not other.folder.exists()


def test_a_broker_that_refuses_to_start_leaves_nothing_behind(tmp_path, capfd):
    cluster = Supervisor(tmp_path, brokers=1, port=0, overrides={"metadata.store": "zookeeper://"})
    with pytest.raises(NotReady, match="broker 0 ended with exit code 1"):
        cluster.start()
    assert cluster.children[0].process is None
    assert "metadata.store" in capfd.readouterr().err


def test_a_broker_that_hangs_before_it_listens_is_not_waited_for_for_ever(tmp_path):
    supervisor = Supervisor(tmp_path, brokers=1, port=0)
    supervisor.children[0].prefix = ("sh", "-c", "exec sleep 600")  # in its place: it has no time to listen before
    supervisor.start_broker(0)
    with pytest.raises(NotReady, match=r"broker 0 is not listening after 0\.2 s"):
        supervisor.wait_ready(within_s=0.2)
    supervisor.kill(0)
