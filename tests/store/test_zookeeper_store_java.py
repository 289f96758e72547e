"""The store in ZooKeeper when servers, connections and processes come and go; what it promises always is in
test_conformance.py."""

import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from itertools import count

import pytest

from tests.ensemble import Ensemble
from tests.output import read_line
from tests.ports import free_ports
from tests.store.conftest import end_session
from tests.waiting import PATIENCE_S, wait_for
from tidelog.ports import Children, Create, Read, Watch, Write
from tidelog.shell.store import zookeeper_session_file
from tidelog.shell.store.zookeeper_store import StoreRefused, ZookeeperStore

TERM_MS = 40_000
"""Longer than any machine makes a process wait; shorter where a session is to end by itself."""

OWNER = """
import sys
from pathlib import Path
from tidelog.ports import Create
from tidelog.shell.store.zookeeper_store import ZookeeperStore
store = ZookeeperStore(sys.argv[1], "/a", session_timeout_ms=int(sys.argv[2]), folder=Path(sys.argv[3]))
assert store.apply([Create("/controller", b"theirs", ephemeral=True)]).outcome == "ok"
print(store.session, flush=True)
for line in sys.stdin:
    outcome = store.apply([Create("/cluster/" + line.strip())]).outcome
    print(outcome, store.apply([Create("/cluster/" + line.strip())]).outcome, store.lost, flush=True)
"""


class Watched:
    """A store, and the event that its `notify` sets."""

    def __init__(self, hosts, term_ms=TERM_MS, **options):
        self.rung = threading.Event()
        self.store = ZookeeperStore(hosts, "/a", session_timeout_ms=term_ms, notify=self.rung.set, **options)

    def until(self, condition, what):
        """Wait, ring by ring, until the condition holds."""
        while not condition():
            assert self.rung.wait(PATIENCE_S), f"nobody rang: {what}"
            self.rung.clear()

    def apply(self, operation):
        return self.store.apply([operation])

    def settled(self, operation):
        """As whoever does not know asks again."""

        def answer():
            result = self.apply(operation)
            return result if result.outcome != "unknown" else None

        return wait_for(answer, f"an answer to {operation}")

    def told(self, path):
        """Wait until a change at the path was notified."""
        self.until(lambda: path in self.store.events(), path)


@pytest.fixture
def server(tmp_path):
    """A server of the test's own, which it may stop."""
    with Ensemble(tmp_path) as ensemble:
        yield ensemble.servers[0]


@pytest.fixture
def opened():
    with ExitStack() as stack:

        def open_one(hosts, term_ms=TERM_MS, **options):
            watched = Watched(hosts, term_ms, **options)
            stack.callback(watched.store.close)
            return watched

        yield open_one


@contextmanager
def owner(hosts, term_ms, folder="/dev/null"):
    command = [sys.executable, "-c", OWNER, hosts, str(term_ms), str(folder)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        read_line(child.stdout)
        yield child
    finally:
        child.kill()
        child.communicate()


def test_a_session_that_the_servers_end_is_lost_and_stays_so(zookeeper, opened):
    one, other = opened(zookeeper.hosts), opened(zookeeper.hosts)
    one.apply(Create("/controller", b"1", ephemeral=True))
    other.apply(Watch("/controller"))
    end_session(zookeeper.hosts, one.store)
    one.until(lambda: one.store.lost, "the end of the session")
    other.told("/controller")
    assert one.apply(Create("/controller")).outcome == "unknown"
    assert list(one.store.events()) == []
    assert other.apply(Read("/controller")).values == (None,)


def test_a_paused_process_loses_its_session_and_learns_it_when_it_goes_on(zookeeper, opened):
    watcher = opened(zookeeper.hosts)
    watcher.apply(Watch("/controller"))
    with owner(zookeeper.hosts, 800) as child:
        watcher.told("/controller")
        child.send_signal(signal.SIGSTOP)
        watcher.told("/controller")
        assert watcher.apply(Create("/controller", b"ours", ephemeral=True)).outcome == "ok"
        child.send_signal(signal.SIGCONT)
        child.stdin.write("late\n")
        child.stdin.flush()
        assert read_line(child.stdout).split() == ["unknown", "unknown", "True"]
        assert watcher.apply(Read("/cluster/late")).values == (None,)


def test_a_killed_process_leaves_a_session_that_its_heir_ends_at_once(zookeeper, opened, tmp_path):
    watcher = opened(zookeeper.hosts)
    with owner(zookeeper.hosts, 50_000, tmp_path):
        assert (tmp_path / zookeeper_session_file.FILE).stat().st_mode & 0o77 == 0
    assert watcher.apply(Read("/controller")).values[0].data == b"theirs"
    heir = opened(zookeeper.hosts, folder=tmp_path)
    assert heir.apply(Create("/controller", b"heir's", ephemeral=True)).outcome == "ok"
    heir.store.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{}", '{"boot":"another","hosts":"h:1","session":1,"password":"00"}', "\xff"])
def test_what_stands_in_the_file_of_another_machine_or_none_is_left_alone(content, tmp_path):
    (tmp_path / zookeeper_session_file.FILE).write_text(content)
    zookeeper_session_file.end_session(tmp_path)


def test_a_process_that_does_no_work_loses_its_session_although_kazoos_thread_runs(zookeeper, opened):
    works = threading.Event()
    works.set()
    watcher = opened(zookeeper.hosts)
    watcher.apply(Watch("/brokers/ids"))
    stuck = opened(zookeeper.hosts, 2_000, is_alive=works.is_set)
    assert stuck.apply(Create("/brokers/ids/7", b"", ephemeral=True)).outcome == "ok"
    watcher.told("/brokers/ids")
    works.clear()
    watcher.told("/brokers/ids")
    assert watcher.apply(Read("/brokers/ids/7")).values == (None,)
    works.set()
    stuck.until(lambda: stuck.store.lost, "the end of the session")


def test_a_restart_of_the_server_within_the_term_leaves_session_nodes_and_watches(server, opened):
    one, other = opened(server.address, 20_000), opened(server.address, 20_000)
    one.apply(Create("/controller", b"1", ephemeral=True))
    one.apply(Watch("/cluster"))
    session = one.store.session
    server.stop()
    wait_for(lambda: not one.store._client.connected, "the lost connection")  # of which nobody rings
    assert one.apply(Read("/controller")).outcome == "unknown"
    server.start()
    server.wait()
    assert one.settled(Read("/controller")).values[0].session == session
    one.told("/cluster")  # whatever is watched may have changed meanwhile
    assert (one.store.lost, one.store.silent, one.store.session) == (False, False, session)
    assert other.settled(Create("/cluster/x")).outcome == "ok"
    one.told("/cluster")


def test_a_server_that_takes_a_connection_and_never_answers_does_not_cost_the_session(server, opened):
    one = opened(server.address, 10_000)
    one.apply(Create("/controller", b"1", ephemeral=True))
    server.stop()
    with socket.create_server((server.host, server.port)) as mute:
        mute.settimeout(PATIENCE_S)
        taken, _ = mute.accept()
    with taken:
        server.start()
        server.wait()
        assert one.settled(Read("/controller")).values[0].session == one.store.session
    assert not one.store.lost


def test_a_store_that_hears_nothing_for_a_term_is_silent_until_it_does_and_the_session_may_go_on(server, opened):
    one = opened(server.address, 2_000)
    one.apply(Create("/controller", b"1", ephemeral=True))
    server.signal(signal.SIGSTOP)
    one.until(lambda: one.store.silent, "silence")
    assert not one.store.lost
    server.stop()
    server.start()
    server.wait()
    one.until(lambda: not one.store.silent or one.store.lost, "an end of the silence")
    assert one.store.lost or one.settled(Read("/controller")).values[0].data == b"1"


def test_a_timer_that_goes_off_as_the_servers_are_reached_again_silences_nobody(zookeeper, opened):
    one = opened(zookeeper.hosts)
    one.store._fall_silent()
    assert not one.store.silent, "nobody would take it back, and the cluster would have no controller"


def test_what_was_under_way_when_the_connection_ended_is_unknown_and_read_again(server, opened):
    one = opened(server.address)
    server.signal(signal.SIGSTOP)
    outcomes = []
    asking = threading.Thread(target=lambda: outcomes.append(one.apply(Write("/cluster", b"x")).outcome))
    asking.start()
    server.stop()
    asking.join(PATIENCE_S)
    assert outcomes == ["unknown"]
    server.start()
    server.wait()
    (node,) = one.settled(Read("/cluster")).values
    assert node in ((b"", 0, node.created, 0), (b"x", 1, node.created, 0))


def test_an_ensemble_goes_on_when_its_leader_is_killed_and_no_update_is_lost(tmp_path, opened):
    with Ensemble(tmp_path, 3) as ensemble:
        stores = [opened(ensemble.hosts) for _ in range(3)]
        stores[0].apply(Create("/counter", b"0"))
        stores[0].apply(Create("/controller", b"", ephemeral=True))
        outcomes, killed = [], threading.Event()

        def increment(me):
            rounds_after = 0
            while rounds_after < 20:
                (node,) = me.settled(Read("/counter")).values
                outcomes.append(me.apply(Write("/counter", b"%d" % (int(node.data) + 1), node.version)).outcome)
                rounds_after += killed.is_set()

        threads = [threading.Thread(target=increment, args=(each,)) for each in stores]
        for thread in threads:
            thread.start()
        leader = ensemble.leader
        leader.stop()
        killed.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        leader.start()
        leader.wait()
        (node,) = stores[0].settled(Read("/counter")).values
        assert node.version == int(node.data)
        assert outcomes.count("ok") <= node.version <= outcomes.count("ok") + outcomes.count("unknown")
        (controller,) = stores[1].settled(Read("/controller")).values
        assert controller.session == stores[0].store.session


def test_servers_that_cannot_be_reached_are_one_sentence_in_time():
    (port,) = free_ports(1)
    with pytest.raises(StoreRefused, match=f"^ZooKeeper cannot be reached at 127.0.0.1:{port} within 300 ms.$"):
        ZookeeperStore(f"127.0.0.1:{port}", connection_timeout_ms=300)


@contextmanager
def cut_off(hosts, cuts):
    """The address of a way to the server whose first connections end with the first request after the session began."""
    host, port = hosts.split(":")
    left = iter(range(cuts))

    def pass_on(client):
        is_cut = next(left, None) is not None
        with client, socket.create_connection((host, int(port))) as upstream:
            for turn in count():
                readable, _, _ = select.select([client, upstream], [], [])
                for source in readable:
                    data = source.recv(65_536)
                    if not data or (is_cut and turn and source is client):
                        return
                    (upstream if source is client else client).sendall(data)

    def accept():
        with suppress(OSError):  # the listener was closed
            while True:
                threading.Thread(target=pass_on, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_a_connection_that_ends_as_soon_as_it_was_made_does_not_refuse_a_store(zookeeper, opened):
    with cut_off(zookeeper.hosts, 2) as hosts:
        assert opened(hosts).settled(Read("/cluster")).outcome == "ok"


def test_connections_that_all_end_at_once_are_one_sentence_in_time(zookeeper):
    with (
        cut_off(zookeeper.hosts, 1_000) as hosts,
        pytest.raises(StoreRefused, match=r"^ZooKeeper at .* does not serve: "),
    ):
        ZookeeperStore(hosts, "/a", connection_timeout_ms=1_500)


def test_trees_below_different_chroots_know_nothing_of_each_other(zookeeper):
    one, other = (ZookeeperStore(zookeeper.hosts, chroot) for chroot in ("/left", "/right/below"))
    other.apply([Watch("/")])
    assert one.apply([Create("/cluster/id", b"1")]).outcome == "ok"
    assert other.apply([Read("/cluster/id"), Children("/cluster")]).values == (None, ())
    assert list(other.events()) == []
    one.close()
    other.close()


def test_a_closed_store_leaves_no_thread_behind(zookeeper):
    before = set(threading.enumerate())
    for _ in range(2):
        store = ZookeeperStore(zookeeper.hosts, "/a")
        assert set(threading.enumerate()) - before  # those of tests before may end meanwhile
        store.close()
    assert set(threading.enumerate()) <= before
