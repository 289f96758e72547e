"""The SQLite store among real processes: death, pauses, contention, restarts, damage, and what it costs at rest."""

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.output import read_line
from tests.waiting import wait_for
from tidelog.ports import Children, Create, Read, Watch, Write
from tidelog.shell.store.sqlite_seal import StoreDamaged
from tidelog.shell.store.sqlite_store import SqliteStore

PATIENCE_S = 90

OWNER = """
import sys
from tests.waiting import wait_for
from tidelog.ports import Create
from tidelog.shell.store.sqlite_store import SqliteStore
store = SqliteStore(sys.argv[1], session_timeout_ms=int(sys.argv[2]))
assert store.apply([Create("/controller", b"theirs", ephemeral=True)]).outcome == "ok"
print(store.session, flush=True)
for line in sys.stdin:
    print(store.apply([Create("/cluster/" + line.strip())]).outcome, store.lost, flush=True)
"""

COUNTER = """
import sys
from tests.waiting import wait_for
from tidelog.ports import Read, Write
from tidelog.shell.store.sqlite_store import SqliteStore
store = SqliteStore(sys.argv[1])
won = 0
while won < int(sys.argv[2]):
    (node,) = store.apply([Read("/cluster")]).values
    won += store.apply([Write("/cluster", b"%d" % (int(node.data or b"0") + 1), node.version)]).outcome == "ok"
store.close()
"""


@contextmanager
def process(code, *arguments):
    child = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@contextmanager
def opened(path, **options):
    """A store, and the event that its `notify` sets."""
    rung = threading.Event()
    store = SqliteStore(path, notify=rung.set, **options)
    try:
        yield store, rung
    finally:
        store.close()


def until(rung, condition):
    """Wait, rung by rung, until the condition holds."""
    while not condition():
        assert rung.wait(PATIENCE_S), "nobody rang"
        rung.clear()


def names(store, path):
    return list(store.apply([Children(path)]).values[0])


def join_watchers(others):
    """Who waits for the death of a session that has ended is about to end too; `others` watch living ones."""
    for thread in threading.enumerate():
        if thread.name.startswith("session-") and thread not in others:
            thread.join(PATIENCE_S)


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def is_gone(store, path):
    return store.apply([Read(path)]).values == (None,)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "metadata.sqlite"


def test_a_killed_process_is_noticed_at_once_by_the_kernels_own_word(path):
    with opened(path, session_timeout_ms=600_000) as (store, rung):
        store.apply([Watch("/controller")])
        with process(OWNER, path, 600_000) as owner:
            read_line(owner.stdout)
            until(rung, lambda: "/controller" in store.events())
            owner.kill()
            until(rung, lambda: is_gone(store, "/controller"))
            until(rung, lambda: "/controller" in store.events())
        assert len(list(path.parent.joinpath("metadata.sqlite-sessions").iterdir())) == 2


def test_who_opens_after_a_death_finds_the_ephemeral_nodes_gone(path):
    with process(OWNER, path, 600_000) as owner:
        read_line(owner.stdout)
    with opened(path) as (store, _):
        assert is_gone(store, "/controller")


def test_a_paused_process_loses_its_session_after_its_term_and_learns_it_when_it_goes_on(path):
    """The longer term is the test's own: it judges the other's, and may itself be kept waiting for a while."""
    with opened(path, session_timeout_ms=12_000) as (store, rung), process(OWNER, path, 2_000) as owner:
        read_line(owner.stdout)
        assert not is_gone(store, "/controller")
        owner.send_signal(signal.SIGSTOP)
        until(rung, lambda: is_gone(store, "/controller"))
        assert store.apply([Create("/controller", b"ours", ephemeral=True)]).outcome == "ok"
        owner.send_signal(signal.SIGCONT)
        owner.stdin.write("late\n")
        owner.stdin.flush()
        assert read_line(owner.stdout).split() == ["unknown", "True"]
        assert names(store, "/cluster") == []


def test_a_process_that_renews_outlives_its_term(path):
    """A machine that keeps the process waiting for longer than its term ends the session rightly: then a longer one."""
    assert any(outlives(path.with_name(str(term_ms)), term_ms) for term_ms in (300, 3_000, 20_000))


def outlives(path, term_ms):
    with opened(path, session_timeout_ms=term_ms) as (store, _), process(OWNER, path, term_ms) as owner:
        read_line(owner.stdout)
        stops_at = store._own.renewed_at + 3 * term_ms
        wait_for(lambda: store._own.renewed_at >= stops_at, "three terms of renewals")
        if store.lost or is_gone(store, "/controller"):
            return False
        owner.stdin.write("early\n")
        owner.stdin.flush()
        return read_line(owner.stdout).split() == ["ok", "False"]


def test_a_store_whose_process_does_no_work_does_not_renew_and_does_not_judge(path):
    with (
        opened(path, session_timeout_ms=300) as (store, _),
        opened(path, session_timeout_ms=300, is_alive=lambda: False) as (stuck, stuck_rung),
    ):
        until(stuck_rung, lambda: stuck.lost)
        assert not store.lost
        assert stuck.apply([Read("/controller")]).outcome == "unknown"


def test_a_judge_that_was_itself_away_starts_its_judgement_anew(path):
    with opened(path, session_timeout_ms=60_000) as (store, _):
        own = store._own
        long_ago = own.renewed_at - 120_000
        own.continuous_since = long_ago
        assert own.has_expired((long_ago, 60_000))
        assert not own.has_expired((own.renewed_at - 59_000, 60_000))
        assert not own.has_expired(None)
        own.renewed_at -= 31_000
        assert not own.has_expired((long_ago, 60_000)), "its own lease is old"
        own.renew()
        assert not own.has_expired((long_ago, 60_000)), "it was away in between"


def test_three_processes_increment_one_counter(path):
    with opened(path) as (store, _):
        with process(COUNTER, path, 40) as a, process(COUNTER, path, 40) as b, process(COUNTER, path, 40) as c:
            assert [each.wait(PATIENCE_S) for each in (a, b, c)] == [0, 0, 0]
        (node,) = store.apply([Read("/cluster")]).values
        assert (int(node.data), node.version) == (120, 120)


def test_changes_of_another_process_ring(path):
    with opened(path, session_timeout_ms=600_000) as (store, rung), process(OWNER, path, 600_000) as owner:
        read_line(owner.stdout)
        store.apply([Watch("/cluster")])
        owner.stdin.write("x\n")
        owner.stdin.flush()
        until(rung, lambda: list(store.events()) == ["/cluster"])


def test_a_lost_ring_is_made_good_at_the_next_renewal(path, monkeypatch):
    with opened(path, session_timeout_ms=600) as (store, rung), opened(path) as (other, _):
        store.apply([Watch("/cluster")])
        monkeypatch.setattr(other._keeper, "notify", lambda sessions: None)
        other.apply([Create("/cluster/id", b"")])
        until(rung, lambda: list(store.events()) == ["/cluster"])
        monkeypatch.undo()


def test_who_falls_too_far_behind_is_told_that_everything_may_have_changed(path, monkeypatch):
    monkeypatch.setattr("tidelog.shell.store.sqlite_tree.KEPT_CHANGES", 8)
    with opened(path) as (store, _), opened(path) as (other, _):
        store.apply([Watch("/config"), Watch("/admin")])
        other.apply([Write("/cluster", b"")] * 200)
        assert list(store.events()) == ["/config", "/admin"]
        assert list(store.events()) == []


def test_a_damaged_file_and_an_unknown_schema_are_refused_by_name(path):
    with opened(path):
        pass
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreDamaged, match="schema version 99"):
        SqliteStore(path)
    path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(StoreDamaged, match=str(path)):
        SqliteStore(path)


def test_a_store_at_rest_costs_almost_nothing(path):
    """Its own thread alone is measured: others of this process have work of their own."""
    with opened(path) as (store, _), opened(path):
        clock = time.pthread_getcpuclockid(store._keeper._thread.ident)
        rest_until = store._own.renewed_at + 1500
        before = time.clock_gettime(clock)
        wait_for(lambda: store._own.renewed_at >= rest_until, "renewals at rest")
        assert time.clock_gettime(clock) - before < 0.1


def test_a_closed_store_leaves_no_thread_and_no_file_behind(path):
    threads, files = set(threading.enumerate()), open_files()
    with opened(path), opened(path):
        pass
    join_watchers(threads)
    assert set(threading.enumerate()) <= threads  # those of earlier tests may end meanwhile
    assert open_files() <= files
    assert [file.name for file in (path.parent / "metadata.sqlite-sessions").iterdir()] == ["turn"]
