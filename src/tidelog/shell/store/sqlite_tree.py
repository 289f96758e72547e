"""The metadata tree in one SQLite file: schema, operations, the log of changed paths, and copies of the tree.

One connection, used by one thread at a time. Every list of operations is one transaction; with WAL and
`synchronous=FULL` it is durable when it returns. Readers never wait for writers.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tidelog.ports import ANY_VERSION, Check, Children, Create, Delete, Node, Operation, Read, Watch, Write
from tidelog.shell.store.sqlite_seal import Seal, StoreDamaged
from tidelog.shell.store.sqlite_turns import sync

SCHEMA_VERSION = 2
UNSEALED = 1
"""The version without checksums."""
KEPT_CHANGES = 4096
"""Changed paths that are kept; a reader further behind must assume that everything changed."""

_SCHEMA = """
CREATE TABLE counters (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE nodes (
  path TEXT PRIMARY KEY, parent TEXT NOT NULL, data BLOB NOT NULL, version INTEGER NOT NULL, created INTEGER NOT NULL,
  session INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX nodes_by_parent ON nodes (parent);
CREATE INDEX nodes_by_session ON nodes (session) WHERE session != 0;
CREATE TABLE sessions (session INTEGER PRIMARY KEY, pid INTEGER NOT NULL);
CREATE TABLE changes (number INTEGER PRIMARY KEY, path TEXT NOT NULL);
INSERT INTO counters VALUES ('created', 0), ('session', 0);
"""

_ADVICE = "stop all brokers and put back a copy of the whole folder"
_CHANGED = "INSERT INTO changes (path) VALUES (?)"

Value = Node | Sequence[str] | None


class _Unmet(Exception):
    pass


class OperationConflict(Exception):
    """The operation at `index` conflicts with the tree; nothing was changed."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class SqliteTree:
    """The file and its transactions; `sqlite_store.py` decides who may use it and when. StoreDamaged if the file is not
    what was committed to it, or has fewer commits than `committed`."""

    def __init__(self, path: str, skeleton: Iterable[str], committed: int) -> None:
        self.path = path
        self._db = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
        self._seal = Seal(self._db)
        self.commits = 0
        """The number of the commit with which the last transaction ended; 0 if it changed nothing or failed."""
        try:
            self._prepare(tuple(skeleton), committed)
        except BaseException:
            self._db.close()
            raise
        self.name: str = self._one("SELECT value FROM counters WHERE name = 'store'")

    def __repr__(self) -> str:
        return f"SqliteTree({self.path})"

    def _prepare(self, skeleton: Sequence[str], committed: int) -> None:
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            version = self._one("PRAGMA user_version")
            if version not in (0, UNSEALED, SCHEMA_VERSION):
                known = f"schema version {version}, this program knows {SCHEMA_VERSION}"
                raise StoreDamaged(f"{self.path}: {known}; unless a newer program wrote it, {_ADVICE}")
            found = self._one("PRAGMA integrity_check(1)")
            if found == "ok":
                with self.reading():
                    found = self._damage(version, committed)
        except (sqlite3.DatabaseError, UnicodeError) as error:  # UnicodeError: damage in the text of the error
            found = str(error)
        if found != "ok":
            raise StoreDamaged(f"{self.path}: {' '.join(found.split())}; {_ADVICE}")
        with self.writing():
            if version == 0:
                self._create_schema()
            for path in skeleton:
                if self.read(path) is None:
                    self._create(Create(path), 0)

    def _damage(self, version: int, committed: int) -> str:
        """What is wrong with a file that SQLite considers sound, or "ok"."""
        if _schema(self._db) != ([] if version == 0 else _expected_schema()):
            return "its tables are not those of a metadata store"
        if version == SCHEMA_VERSION and not self._seal.holds():
            return "its content is not what was committed"
        if self._seal.commits < committed:
            return f"it has {self._seal.commits} of {committed} committed changes"
        return "ok"

    def _create_schema(self) -> None:
        _create_tables(self._db)
        self._db.execute("INSERT INTO counters VALUES ('store', ?)", (os.urandom(8).hex(),))
        self._begin_seal()

    def _begin_seal(self) -> None:
        self._seal.create()
        self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def seal_old(self) -> None:
        """Begin the checksums of a file of an earlier version, inside `writing`, once nobody else has it open. That
        version cannot open it then: a cluster may return to it until its features are finalized."""
        if self._one("PRAGMA user_version") == UNSEALED and not self.sessions():
            self._begin_seal()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction; an exception rolls it back."""
        self.commits = 0
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._seal.begin()
            yield
            number = self._seal.renew()
            self._db.execute("COMMIT")
            self.commits = number
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A consistent snapshot for everything that is read inside."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")

    def _one(self, statement: str, *values: object) -> Any:
        row = self._db.execute(statement, values).fetchone()
        return None if row is None else row[0]

    # Queries, inside `reading` or `writing`

    def read(self, path: str) -> Node | None:
        row = self._db.execute("SELECT data, version, created, session FROM nodes WHERE path = ?", (path,)).fetchone()
        return None if row is None else Node(*row)

    def children(self, path: str) -> Sequence[str] | None:
        folder = path.rstrip("/")
        if folder and self.read(folder) is None:
            return None
        rows = self._db.execute("SELECT path FROM nodes WHERE parent = ?", (folder,))
        return tuple(sorted(row[0][len(folder) + 1 :] for row in rows))

    def query(self, operation: Operation) -> Value:
        match operation:
            case Read(path):
                return self.read(path)
            case Children(path):
                return self.children(path)
            case Watch():
                return None
        raise AssertionError(f"{operation} among queries")

    def data_version(self) -> int:
        """A number that changes whenever another connection commits."""
        return int(self._one("PRAGMA data_version"))

    def last_change(self) -> int:
        return int(self._one("SELECT max(number) FROM changes") or 0)

    def changes_since(self, number: int) -> tuple[int, list[str] | None]:
        """The newest change number and the paths changed after `number`; None if some of them are no longer kept."""
        oldest, newest = self._db.execute("SELECT min(number), max(number) FROM changes").fetchone()
        if newest is None or newest <= number:
            return number, []
        if oldest > number + 1:
            return newest, None
        rows = self._db.execute(
            "SELECT path FROM changes WHERE number > ? AND number <= ? ORDER BY number", (number, newest)
        )
        return newest, [row[0] for row in rows]

    def sessions(self) -> list[int]:
        return [row[0] for row in self._db.execute("SELECT session FROM sessions")]

    def has_session(self, session: int) -> bool:
        return self._one("SELECT 1 FROM sessions WHERE session = ?", session) is not None

    # Changes, inside `writing`

    def change(self, operations: Sequence[Operation], session: int) -> list[Value]:
        values: list[Value] = []
        for index, operation in enumerate(operations):
            try:
                values.append(self._change(operation, session))
            except _Unmet:
                raise OperationConflict(index) from None
        self._forget_old_changes()
        return values

    def _change(self, operation: Operation, session: int) -> Value:
        match operation:
            case Create():
                return self._create(operation, session)
            case Write(path, data, version):
                old = self._at_version(path, version)
                new = Node(bytes(data), old.version + 1, old.created, old.session)
                self._seal.removed(path, old)
                self._seal.added(path, new)
                self._db.execute("UPDATE nodes SET data = ?, version = ? WHERE path = ?", (new.data, new.version, path))
                self._db.execute(_CHANGED, (path,))
                return new
            case Delete(path, version):
                old = self._at_version(path, version)
                if self._one("SELECT 1 FROM nodes WHERE parent = ? LIMIT 1", path) is not None:
                    raise _Unmet
                self._remove(path, old)
                return None
            case Check(path, version):
                self._at_version(path, version)
                return None
        raise AssertionError(f"{operation} among changes")

    def _at_version(self, path: str, version: int) -> Node:
        node = self.read(path)
        if node is None or version not in (ANY_VERSION, node.version):
            raise _Unmet
        return node

    def _create(self, operation: Create, session: int) -> Node:
        path = operation.path
        parent = path.rpartition("/")[0]
        above = self.read(parent) if parent else None
        if self.read(path) is not None or (parent and (above is None or above.session)):
            raise _Unmet  # ephemeral nodes have no children, as in ZooKeeper
        node = Node(bytes(operation.data), 0, self._count("created"), session if operation.ephemeral else 0)
        self._db.execute(
            "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?)",
            (path, parent, node.data, node.version, node.created, node.session),
        )
        self._db.execute(_CHANGED, (path,))
        self._seal.added(path, node)
        return node

    def _remove(self, path: str, node: Node) -> None:
        self._db.execute("DELETE FROM nodes WHERE path = ?", (path,))
        self._db.execute(_CHANGED, (path,))
        self._seal.removed(path, node)

    def _count(self, name: str) -> int:
        return int(self._one("UPDATE counters SET value = value + 1 WHERE name = ? RETURNING value", name))

    def _forget_old_changes(self) -> None:
        self._db.execute("DELETE FROM changes WHERE number <= ?", (self.last_change() - KEPT_CHANGES,))

    def next_session(self) -> int:
        return self._count("session")

    def add_session(self, session: int, pid: int) -> None:
        self._db.execute("INSERT INTO sessions VALUES (?, ?)", (session, pid))

    def end_session(self, session: int) -> bool:
        """Remove the session and its ephemeral nodes; False if it had already ended."""
        if self._db.execute("DELETE FROM sessions WHERE session = ?", (session,)).rowcount == 0:
            return False
        owned = "SELECT path, data, version, created, session FROM nodes WHERE session = ?"
        for path, *fields in self._db.execute(owned, (session,)).fetchall():
            self._remove(path, Node(*fields))
        return True


def _create_tables(db: sqlite3.Connection) -> None:
    for statement in _SCHEMA.split(";"):
        db.execute(statement)


def _schema(db: sqlite3.Connection) -> list[tuple[str, ...]]:
    return db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()


def _expected_schema() -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as empty:
        _create_tables(empty)
        return _schema(empty)


def open_existing(path: Path) -> sqlite3.Connection:
    """A connection that creates no file: another process may have removed the database."""
    return sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None)


def copy_tree(source: Path, target: Path, ended: Iterable[int], skipped: int, committed: int) -> None:
    """Copy what is committed in `source`, without the sessions in `ended`. `target` appears whole and durable, or not
    at all; StoreDamaged if there are fewer commits than `committed`.

    Takes only read locks. `skipped` session numbers are left out, because stopped processes may have taken them.
    """
    fresh = target.with_name(f"{target.name}.new")
    remove_database(fresh)
    with closing(open_existing(source)) as old:
        old.execute("VACUUM INTO ?", (str(fresh),))
    tree = SqliteTree(str(fresh), (), committed)
    try:
        with tree.writing():
            for _ in range(skipped):
                tree.next_session()
            for session in ended:
                tree.end_session(session)
    finally:
        tree.close()
    sync(fresh)
    fresh.replace(target)
    sync(target.parent)


def remove_database(path: Path) -> None:
    """Remove the database and the files that SQLite keeps beside it. Processes that have it open keep their
    descriptors."""
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
