"""The store's thread: results in order, events, and a lost session that is begun anew."""

import threading

from tidelog.ports import Create, StoreResult, Watch
from tidelog.shell.store.sqlite_store import SqliteStore
from tidelog.shell.store.store_thread import StoreThread


class Told:
    """Remembers what the thread reported, and lets a test wait for it."""

    def __init__(self):
        self.what = []
        self.changed = threading.Condition()

    def __getattr__(self, name):
        def tell(*arguments):
            with self.changed:
                self.what.append((name, *arguments))
                self.changed.notify_all()

        return tell

    def wait_for(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.what) >= count, 60), self.what
            return self.what[:count]


def test_results_come_in_order_of_submission_and_events_after_their_cause(tmp_path):
    told = Told()
    thread = StoreThread(lambda notify: SqliteStore(tmp_path / "store", notify=notify))
    thread.start(told)
    thread.submit(1, [Watch("/cluster")])
    thread.submit(2, [Create("/cluster/id", b"")])
    thread.submit(3, [Create("/cluster/id", b"")])
    started, first, second, event, third = told.wait_for(5)
    thread.stop()
    assert started == ("session_started", 1)
    assert first == ("store_result", 1, StoreResult("ok", (None,)))
    assert (second[:2], second[2].outcome) == (("store_result", 2), "ok")
    assert event == ("store_event", "/cluster")
    assert (third[:2], third[2].outcome) == (("store_result", 3), "conflict")


def test_another_sessions_change_is_notified(tmp_path):
    told = Told()
    thread = StoreThread(lambda notify: SqliteStore(tmp_path / "store", notify=notify))
    thread.start(told)
    thread.submit(1, [Watch("/cluster")])
    told.wait_for(2)
    other = SqliteStore(tmp_path / "store")
    other.apply([Create("/cluster/id", b"")])
    assert told.wait_for(3)[2] == ("store_event", "/cluster")
    other.close()
    thread.stop()


def end_behind_its_back(store):
    """So that it learns of the end of its session by what it is asked next, and not by its keeper."""
    store._keeper.stop()
    with store._write_turn(), store._tree.writing():
        store._tree.end_session(store.session)


def test_after_a_lost_session_a_new_one_begins_and_what_was_meant_for_the_old_is_unknown(tmp_path):
    told = Told()
    thread = StoreThread(lambda notify: SqliteStore(tmp_path / "store", notify=notify))
    thread.start(told)
    end_behind_its_back(thread.store)
    thread.submit(1, [Create("/cluster/id", b"")])
    assert [each[0] for each in told.wait_for(4)] == [
        "session_started",
        "store_result",
        "session_lost",
        "session_started",
    ]
    thread.submit(2, [Create("/cluster/id", b"")])
    told.wait_for(5)
    thread.accept(told.what[3][1])
    thread.submit(3, [Create("/cluster/id", b"")])
    told.wait_for(6)
    thread.stop()
    assert [(each[1], each[2].outcome) for each in told.what if each[0] == "store_result"] == [
        (1, "unknown"),
        (2, "unknown"),
        (3, "ok"),
    ]
    assert thread.store.session > told.what[0][1]


def test_a_store_that_cannot_be_opened_again_is_complained_about_until_it_can(tmp_path, monkeypatch):
    monkeypatch.setattr("tidelog.shell.store.store_thread.RETRY_S", 0.01)
    told = Told()
    refusals = iter([None, RuntimeError("damaged"), OSError("gone"), None])

    def open_session(notify):
        refusal = next(refusals)
        if refusal is not None:
            raise refusal
        return SqliteStore(tmp_path / "store", notify=notify)

    thread = StoreThread(open_session)
    thread.start(told)
    told.wait_for(1)
    end_behind_its_back(thread.store)
    thread.submit(1, [])
    assert told.wait_for(6)[2:5] == [
        ("session_lost",),
        ("store_unreachable", "damaged"),
        ("store_unreachable", "gone"),
    ]
    thread.stop()
