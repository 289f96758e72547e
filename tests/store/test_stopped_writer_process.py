"""A process that is stopped inside a write of the SQLite store: the others go on, and it learns what became of it.

Real processes, stopped by SIGSTOP at a named point of their write. What they hold then, locks of files, nobody can take
from them. The bound is the session's term; what is asserted leaves room for a busy machine.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.output import read_line
from tests.processes import Processes
from tests.waiting import wait_for
from tidelog.errors import ApiError, ErrorCode
from tidelog.ports import Children, Create, Read, Watch
from tidelog.shell.store.sqlite_store import SqliteStore
from tidelog.shell.store.store_address import SqliteAddress, StoreUnavailable, open_store
from tidelog.shell.supervisor import is_complete, metadata_view
from tidelog.shell.transport import Admin
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest

TERM_MS = 1_000
BOUND_S = 20
ROUNDS = 8

STOPPED = """
import os, signal, sys
from contextlib import contextmanager
from tidelog.ports import Children, Create, Read
from tidelog.shell.store import sqlite_store
from tidelog.shell.store.sqlite_store import SqliteStore
from tidelog.shell.store.sqlite_tree import SqliteTree

path, term_ms, point = sys.argv[1], int(sys.argv[2]), sys.argv[3]
writing, copy_tree = SqliteTree.writing, sqlite_store.copy_tree

def stop():
    print("stops", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)

@contextmanager
def stopped_while_writing(self):
    SqliteTree.writing = writing
    if point == "before it begins":
        stop()
    with writing(self):
        yield
        if point == "before its commit":
            stop()
    if point == "after its commit":
        stop()

def stopped_while_copying(*arguments):
    sqlite_store.copy_tree = copy_tree
    stop()
    copy_tree(*arguments)

at_once = {"while it opens": "before its commit", "while it copies": ""}
if point == "while it copies":
    sqlite_store.copy_tree = stopped_while_copying
elif point == "while it opens":
    SqliteTree.writing = stopped_while_writing
point = at_once.get(point, point)
store = SqliteStore(path, session_timeout_ms=term_ms)
if sys.argv[3] not in at_once:
    assert store.apply([Create("/controller", b"theirs", ephemeral=True)]).outcome == "ok"
    SqliteTree.writing = stopped_while_writing
result = store.apply([Create("/cluster/theirs")])
print(result.outcome, store.lost, flush=True)
store.close()
store = SqliteStore(path, session_timeout_ms=term_ms)
print(store.apply([Create("/cluster/again")]).outcome, *store.apply([Children("/cluster")]).values[0], flush=True)
store.close()
"""

HOOK = """
import os, signal
from contextlib import contextmanager
from pathlib import Path
from tidelog.shell.store.sqlite_tree import SqliteTree

writing, order = SqliteTree.writing, Path(os.environ["STOP_INSIDE_A_WRITE"])

@contextmanager
def stopped_while_writing(self):
    with writing(self):
        yield
        if order.exists() and order.read_text() == str(os.getpid()):
            order.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)

SqliteTree.writing = stopped_while_writing
"""
"""For brokers of this test only: Python imports `sitecustomize` at its start."""

COUNTER = """
import sys, time
from tidelog.ports import Read, Write
from tidelog.shell.store.sqlite_store import SqliteStore

counts = {"ok": 0, "unknown": 0, "conflict": 0}
store = SqliteStore(sys.argv[1], session_timeout_ms=int(sys.argv[2]))
print("up", flush=True)
ends_at = time.monotonic() + float(sys.argv[3])
while time.monotonic() < ends_at:
    found = store.apply([Read("/cluster")])
    if found.outcome == "ok":
        (node,) = found.values
        count = int(node.data or b"0") + 1
        counts[store.apply([Write("/cluster", b"%d" % count, node.version)]).outcome] += 1
    if store.lost:
        store.close()
        store = SqliteStore(sys.argv[1], session_timeout_ms=int(sys.argv[2]))
store.close()
print(counts["ok"], counts["unknown"], flush=True)
"""


@contextmanager
def process(code, *arguments):
    child = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@contextmanager
def stopped(path, point):
    """A process that stands at this point of its write until it gets SIGCONT."""
    with process(STOPPED, path, TERM_MS, point) as child:
        assert read_line(child.stdout) == "stops\n"
        wait_for(lambda: is_stopped(child), "the process to be stopped")
        yield child


def is_stopped(child):
    return Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@contextmanager
def opened(path):
    rung = threading.Event()
    store = SqliteStore(path, session_timeout_ms=TERM_MS, notify=rung.set)
    try:
        yield store, rung
    finally:
        store.close()


def applied(stores, operations):
    """The first answer that is not `unknown`: a session that a busy machine ended is begun anew."""
    for store in stores:
        result = store.apply(operations)
        if result.outcome != "unknown":
            return result
    raise AssertionError("every session was ended")


def go_on(child):
    child.send_signal(signal.SIGCONT)
    first, second = read_line(child.stdout).split(), read_line(child.stdout).split()
    assert child.wait(60) == 0
    return first, second


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metadata.sqlite"


POINTS = ("before it begins", "before its commit", "after its commit")


@pytest.mark.parametrize("point", POINTS)
def test_others_write_within_a_term_and_the_stopped_writer_is_fenced_and_comes_back(path, point):
    with opened(path) as (store, _), opened(path) as (other, _), stopped(path, point) as child:
        began = time.monotonic()
        assert applied((store, other), [Create("/cluster/ours")]).outcome == "ok"
        assert time.monotonic() - began < BOUND_S
        assert is_stopped(child)
        assert applied((store, other), [Read("/controller")]).values == (None,), "its session is over"
        assert applied((other, store), [Create("/controller", b"ours", ephemeral=True)]).outcome == "ok"
        counted = ["theirs"] if point == "after its commit" else []
        assert go_on(child) == (["unknown", "True"], ["ok", "again", "ours", *counted])
        assert list(applied((store, other), [Children("/cluster")]).values[0]) == ["again", "ours", *counted]


def test_a_new_process_opens_a_store_whose_writer_is_stopped(path):
    with opened(path):
        pass
    with stopped(path, "before its commit") as child, opened(path) as (store, _):
        assert is_stopped(child)
        assert store.apply([Create("/controller", b"ours", ephemeral=True)]).outcome == "ok"
        assert go_on(child) == (["unknown", "True"], ["ok", "again"])


def test_a_process_that_is_stopped_while_it_opens_the_store_opens_it_when_it_goes_on(path):
    with opened(path) as (store, _), stopped(path, "while it opens") as child:
        assert store.apply([Create("/cluster/ours")]).outcome == "ok"
        assert is_stopped(child)
        assert go_on(child) == (["ok", "False"], ["ok", "again", "ours", "theirs"])


def test_who_is_stopped_while_it_takes_over_is_left_behind_as_well(path):
    with (
        stopped(path, "before its commit") as first,
        stopped(path, "while it copies") as second,
        opened(path) as (store, _),
    ):
        assert is_stopped(first)
        assert is_stopped(second)
        assert store.apply([Create("/cluster/ours")]).outcome == "ok"
        assert go_on(second) == (["ok", "False"], ["ok", "again", "ours", "theirs"])
        assert store.apply([Create("/cluster/more")]).outcome == "ok"
        assert go_on(first) == (["unknown", "True"], ["conflict", "again", "more", "ours", "theirs"])
        assert not store.lost


def test_who_only_watches_hears_of_what_happens_after_a_takeover(path):
    with opened(path) as (watcher, rung), opened(path) as (store, _), stopped(path, "before its commit"):
        watcher.apply([Watch("/cluster"), Watch("/config")])
        rung.clear()
        assert store.apply([Create("/cluster/ours")]).outcome == "ok"
        seen = set()
        while "/cluster" not in seen:
            assert rung.wait(BOUND_S), "nobody rang"
            rung.clear()
            seen.update(watcher.events())
        assert list(watcher.apply([Children("/cluster")]).values[0]) == ["ours"]
        assert not watcher.lost


def test_after_a_takeover_there_is_one_database_and_it_is_found_again(path):
    with opened(path) as (store, _), stopped(path, "before its commit") as child:
        assert store.apply([Create("/cluster/ours")]).outcome == "ok"
        child.kill()
        child.wait()
    assert [file.name for file in path.parent.glob("metadata.sqlite*") if file.is_file()] == ["metadata.sqlite.1"]
    store = open_store(SqliteAddress(path), session_timeout_ms=TERM_MS, create=False)
    assert list(store.apply([Children("/cluster")]).values[0]) == ["ours"]
    store.close()
    with pytest.raises(StoreUnavailable):
        open_store(SqliteAddress(path.with_name("other.sqlite")), session_timeout_ms=TERM_MS, create=False)


def test_a_writer_that_is_slow_and_alive_is_waited_for(path):
    """Its lease goes on, though its write takes three terms: a disk that is slow is slow for all."""
    with opened(path) as (slow, _), opened(path) as (store, _):
        holds, may_go_on = threading.Event(), threading.Event()

        def write():
            with slow._write_turn(), slow._tree.writing():
                holds.set()
                may_go_on.wait(60)

        writer = threading.Thread(target=write)
        writer.start()
        holds.wait(60)
        threading.Timer(3 * TERM_MS / 1000, may_go_on.set).start()
        assert store.apply([Create("/cluster/ours")]).outcome == "ok"
        writer.join(60)
        assert may_go_on.is_set()
        assert not slow.lost
    assert not path.with_name("metadata.sqlite.1").exists()


def test_no_increment_is_lost_or_made_twice_while_writers_are_stopped_at_random(path):
    """Each increment is a read and a write at the version that was read; what a writer was told `ok` of is there."""
    chance = random.Random(7)
    with opened(path) as (store, _):
        store.apply([Read("/cluster")])
    with (
        process(COUNTER, path, 300, ROUNDS) as a,
        process(COUNTER, path, 300, ROUNDS) as b,
        process(COUNTER, path, 300, ROUNDS) as c,
    ):
        writers = (a, b, c)
        for writer in writers:
            assert read_line(writer.stdout) == "up\n"
        for _ in range(ROUNDS):
            victim = chance.choice(writers)
            victim.send_signal(signal.SIGSTOP)
            time.sleep(chance.uniform(0.1, 0.9))
            victim.send_signal(signal.SIGCONT)
        told = [tuple(map(int, read_line(writer.stdout).split())) for writer in writers]
        assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    with opened(path) as (store, _):
        (node,) = store.apply([Read("/cluster")]).values
    counted = sum(ok for ok, _ in told)
    assert counted <= int(node.data) <= counted + sum(unknown for _, unknown in told)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Three broker processes; a pid in the file `order` stops that one inside its next write."""
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(HOOK)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "hook"), *sys.path]))
    monkeypatch.setenv("STOP_INSIDE_A_WRITE", str(tmp_path / "order"))
    options = {"broker.session.timeout.ms": "2000"}
    with Processes(tmp_path / "data", brokers=3, port=0, overrides=options, report=lambda _: None) as running:
        yield running


def test_a_cluster_elects_and_creates_while_its_controller_stands_inside_a_write(cluster, tmp_path):
    first = metadata_view("127.0.0.1", cluster.children[0].port).controller
    stopped, *others = sorted(cluster.children, key=lambda child: child.number != first)
    with Admin(f"127.0.0.1:{others[0].port}") as admin:
        (tmp_path / "order").write_text(str(stopped.pid))
        began = time.monotonic()
        create(admin, "asked-for-when-it-stopped")
        wait_for(lambda: metadata_view("127.0.0.1", others[0].port).controller not in (first, -1), "another controller")
        wait_for(lambda: create(admin, "afterwards") == ErrorCode.NONE, "a topic to be created")
        took = time.monotonic() - began
        assert is_stopped(stopped)
        stopped.signal(signal.SIGCONT)
        everybody = frozenset(child.number for child in cluster.children)
        for child in cluster.children:
            wait_for(
                lambda child=child: is_complete(metadata_view("127.0.0.1", child.port), everybody), "all to know all"
            )
        wait_for(lambda: create(admin, "in-the-end", replicas=3) == ErrorCode.NONE, "a topic with replicas on all")
    assert took < BOUND_S, took


def create(admin, name, replicas=2):
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=3, replication_factor=replicas)])
    try:
        return ErrorCode(admin.ask(request, timeout_ms=1000).topics[0].error_code)
    except ApiError as error:
        return error.code
