"""Bytes that changed in the files of the SQLite store: the next start has what was committed, or is refused with a
sentence that says what is wrong and what to do. `tests/shell/test_rotten_metadata.py` starts brokers on such files.

`test_every_*` takes 40 bytes of each file; TIDELOG_ROT_STEP=1 takes every byte (an hour).
"""

import os
import shutil
import sqlite3
from contextlib import closing

import pytest

from tidelog.controller.tree import FEATURE, format_features
from tidelog.ports import Create, Delete, Node, Read, Write
from tidelog.shell.store.sqlite_seal import Seal
from tidelog.shell.store.sqlite_store import SqliteStore
from tidelog.shell.store.sqlite_tree import UNSEALED
from tidelog.shell.store.store_address import SqliteAddress, StoreUnavailable, open_store

STEP = int(os.environ.get("TIDELOG_ROT_STEP", "0"))
TOPICS = [f"/brokers/topics/{number}" for number in range(12)]
LOG, TURN = "store-wal", "store-sessions/turn"
ADVICE = "stop all brokers and put back a copy of the whole folder."


def fill(store):
    for path in TOPICS:
        assert store.apply([Create(path, b"first" * 40)]).outcome == "ok"


def change(store):
    for path in TOPICS:
        assert store.apply([Write(path, b"second" * 40)]).outcome == "ok"


def stopped(folder, killed, checkpointed):
    """A folder whose process was killed or not, and whose first changes are in the database or in its log."""
    store = SqliteStore(folder / "live" / "store")
    fill(store)
    if checkpointed:
        store._tree._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    change(store)
    shutil.copytree(folder / "live", folder / "killed", ignore=shutil.ignore_patterns("*-shm"))
    store.close()
    return folder / ("killed" if killed else "live")


@pytest.fixture(scope="module", params=["stopped", "killed", "killed late"])
def before(request, tmp_path_factory):
    return stopped(tmp_path_factory.mktemp("store"), request.param != "stopped", request.param == "killed late")


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    return stopped(tmp_path_factory.mktemp("store"), killed=True, checkpointed=True)


def start(before, folder, **changed):
    """Start on these files and return the topics; what is None is missing. StoreUnavailable if the start is refused."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(before, folder)
    for name, content in changed.items():
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_bytes(content)
    store = open_store(SqliteAddress(folder / "store"), session_timeout_ms=9_000)
    try:
        found = store.apply([Read(path) for path in TOPICS]).values
        assert store.apply([Create("/brokers/topics/new"), Delete("/brokers/topics/new")]).outcome == "ok"
    finally:
        store.close()
    return found


def turned(content, position):
    changed = bytearray(content)
    changed[position] ^= 1 << position % 8
    return bytes(changed)


def spoiled(content):
    """The content with one bit of some bytes changed, cut there, and with zeros from there on, as after a power loss."""
    step = STEP or len(content) // 40 | 1
    for position in range(0, len(content), step):
        yield f"bit of byte {position}", turned(content, position)
    for position in range(0, len(content), step * 10):
        yield f"cut at byte {position}", content[:position]
        yield f"zeros from byte {position}", content[:position] + bytes(len(content) - position)
    yield "missing", None


@pytest.mark.parametrize("name", ["store", LOG, TURN])
def test_every_file_that_rots(before, tmp_path, name):
    """Every transaction behind a bit of the log that had changed was gone in silence, and changed nodes were believed."""
    if not (before / name).exists():
        return
    good = start(before, tmp_path / "copy")
    assert [node.data for node in good] == [b"second" * 40] * len(TOPICS)
    refusals = []
    for what, content in spoiled((before / name).read_bytes()):
        try:
            assert start(before, tmp_path / "copy", **{name: content}) == good, what
        except StoreUnavailable as refusal:
            refusals.append(str(refusal))
    beginning = f"The metadata store {tmp_path}/copy/store cannot be opened: "
    assert [
        each for each in refusals if not (each.startswith(beginning) and each.endswith(ADVICE) and "\n" not in each)
    ] == []
    assert (len(refusals) == 0) == (name == TURN)


def refusal(before, tmp_path, **changed):
    with pytest.raises(StoreUnavailable) as refused:
        start(before, tmp_path / "copy", **changed)
    return str(refused.value).rpartition("copy/store: ")[2].removesuffix(f"; {ADVICE}")


def test_a_transaction_of_the_log_that_rots_takes_no_other_along(killed, tmp_path):
    log = (killed / LOG).read_bytes()
    commits = len(TOPICS) * 2 + 2
    assert refusal(killed, tmp_path, **{LOG: turned(log, len(log) // 2)}).endswith(f" of {commits} committed changes")
    assert (
        refusal(killed, tmp_path, **{LOG: turned(log, len(log) - 1)})
        == f"it has {commits - 1} of {commits} committed changes"
    )
    assert refusal(killed, tmp_path, **{LOG: None}).endswith(f" of {commits} committed changes")


def test_a_store_that_lost_its_content_is_not_taken_for_a_new_one(killed, tmp_path):
    assert refusal(killed, tmp_path, store=b"", **{LOG: None}) == "it has 0 of 26 committed changes"
    assert refusal(killed, tmp_path, store=None, **{LOG: None}) == "it has 0 of 26 committed changes"


def test_a_node_that_rots_is_not_believed(tmp_path):
    before = stopped(tmp_path, killed=False, checkpointed=False)
    content = (before / "store").read_bytes()
    for word in (b"secondsecond", b"/brokers/topics/7/brokers/topics"):
        position = content.index(word)
        assert refusal(before, tmp_path, store=turned(content, position + 3)), word


def test_an_older_copy_is_opened_without_the_folder_of_the_sessions(killed, tmp_path):
    """What docs/guide.md says for those who have no better copy."""
    log = (killed / LOG).read_bytes()
    assert "of 26 committed changes" in refusal(killed, tmp_path, **{LOG: log[: len(log) // 2]})
    shutil.rmtree(tmp_path / "copy" / "store-sessions")
    with closing(open_store(SqliteAddress(tmp_path / "copy" / "store"), session_timeout_ms=9_000)) as store:
        found = store.apply([Read(path) for path in TOPICS]).values
    assert {node.data for node in found} == {b"first" * 40, b"second" * 40}


def finalize(store):
    assert store.apply([Create(FEATURE, format_features({"tidelog.metadata": 1}))]).outcome == "ok"


def test_a_store_of_an_earlier_version_gets_checksums_once_nobody_has_it_open(tmp_path):
    path = tmp_path / "store"
    with closing(SqliteStore(path)) as store:
        fill(store)
        finalize(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("DELETE FROM counters WHERE name IN ('commits', 'nodes', 'seal')")
        database.execute(f"PRAGMA user_version = {UNSEALED}")
    shutil.rmtree(tmp_path / "store-sessions")
    with closing(sqlite3.connect(path, isolation_level=None)) as earlier:
        earlier.execute("INSERT INTO sessions VALUES (1000, 1)")
        with closing(SqliteStore(path)) as store:  # ends that session: its process is dead
            change(store)
            assert earlier.execute("PRAGMA user_version").fetchone() == (2,)
    with closing(SqliteStore(path)) as store:
        (node,) = store.apply([Read(TOPICS[0])]).values
    assert node == Node(b"second" * 40, 1, node.created)


def test_two_versions_at_once_have_no_checksums(tmp_path, monkeypatch):
    path = tmp_path / "store"
    monkeypatch.setattr("tidelog.shell.store.sqlite_tree.SCHEMA_VERSION", UNSEALED)
    monkeypatch.setattr("tidelog.shell.store.sqlite_tree.Seal.create", lambda self: None)
    with closing(SqliteStore(path)) as earlier:
        monkeypatch.undo()
        with closing(SqliteStore(path)) as store:
            fill(store)
            change(earlier)
        with closing(SqliteStore(path)) as store:
            (node,) = store.apply([Read(TOPICS[0])]).values
    assert node == Node(b"second" * 40, 1, node.created)
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (UNSEALED,), "the earlier version may come back"
        finalize(store)
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path)) as database:
        assert store.apply([Read(TOPICS[0])]).values == (node,)
        assert database.execute("PRAGMA user_version").fetchone() == (2,)


def test_a_transaction_that_changes_nothing_leaves_the_count_of_others(tmp_path):
    first, second = SqliteStore(tmp_path / "store"), SqliteStore(tmp_path / "store")
    fill(first)
    change(second)
    counted = second._turns.noted_commits(0)
    assert counted == second._tree.commits > 24
    with first._transaction():
        pass
    assert second._turns.noted_commits(0) == counted
    first.close()
    second.close()


def test_a_commit_that_failed_is_not_counted(tmp_path, monkeypatch):
    store = SqliteStore(tmp_path / "store")
    fill(store)
    renew = Seal.renew

    def fails(seal):
        renew(seal)
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Seal, "renew", fails)
        assert store.apply([Create("/brokers/topics/full")]).outcome == "unknown"
    with store._transaction():
        pass
    shutil.copytree(tmp_path, tmp_path / "copy", ignore=shutil.ignore_patterns("*-shm", "copy"))
    store.close()
    open_store(SqliteAddress(tmp_path / "copy" / "store"), session_timeout_ms=9_000).close()
