"""`ports.MetadataStore` on one SQLite file: one machine, many processes.

- Every list of changes is one transaction, which also checks the caller's session. A session that others have ended can
  therefore not write any more: its answers are `unknown`, and `lost` is set.
- Commit first, then notify: after each commit the writer sends an empty datagram to each session, which then reads what
  changed. A lost datagram is made up for at the next renewal (`PRAGMA data_version`).
- Writers queue on a lock file, so they neither poll nor starve. A process that is stopped inside a write blocks them
  until its session is over, no longer: `sqlite_turns` describes how they skip it and its database.

`apply`, `events` and `close` may be called from any thread, one call of each at a time. The store's own thread (the
keeper) renews the lease, receives notifications, and ends the expired sessions of others.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from tidelog.controller.features import tree_version
from tidelog.controller.tree import FEATURE, SKELETON
from tidelog.ports import Operation, Query, StoreResult, Watch
from tidelog.shell.store.sqlite_keeper import Keeper
from tidelog.shell.store.sqlite_seal import StoreDamaged
from tidelog.shell.store.sqlite_sessions import SessionFile, is_dead, read_lease
from tidelog.shell.store.sqlite_tree import OperationConflict, SqliteTree, copy_tree, remove_database
from tidelog.shell.store.sqlite_turns import Turns, numbered, numbers

SESSION_TIMEOUT_MS = 9000
_ERRORS = (sqlite3.Error, OSError, StoreDamaged)


class _SessionEnded(Exception):
    """Other sessions have ended this session."""


class SqliteStore:
    """One session with the tree in the file at `path`.

    `notify` is called, from any thread, when `events` may have news or the session is `lost`; it must only wake the
    caller. While `is_alive` returns False the lease is not renewed.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        skeleton: Iterable[str] = SKELETON,
        notify: Callable[[], None] = lambda: None,
        is_alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self.path = Path(path).absolute()
        self.lost = False
        self.silent = False  # a file is always reachable
        self.closed = False
        self.is_alive = is_alive
        self._notify = notify
        self._folder = self.path.with_name(self.path.name + "-sessions")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._turns = Turns(self.path, self._folder, session_timeout_ms)
        self._lock = Lock()
        self._skeleton = tuple(skeleton)
        self._tree: SqliteTree
        self._database: Path | None = None  # the file of `_tree`; others may have moved on to the next one
        self._watched: dict[str, int] = {}  # path → the last change when the watch was set
        self._own_lease: SessionFile | None = (
            None  # None until the first session: without a lease it cannot judge others
        )
        self.session = 0
        try:
            while not self._begin_session(session_timeout_ms):
                pass  # skipped while it opened the database: retry in the next one
        except BaseException:
            self._turns.close()
            raise
        self._keeper = Keeper(self, self._own)
        self._keeper.start()
        self._keeper.notify(self._tree.sessions())

    def __repr__(self) -> str:
        return f"SqliteStore({self.path}, session {self.session}{', lost' if self.lost else ''})"

    def _begin_session(self, term_ms: int) -> bool:
        """Open the database and add a session. The lock is taken inside the transaction: no process sees a session
        without its lock."""
        own = None
        try:
            with self._transaction():
                for other in self._tree.sessions():
                    if is_dead(self.file_of(other)):
                        self._tree.end_session(other)
                if tree_version(self._tree.read(FEATURE)):
                    self._tree.seal_old()
                session = self._tree.next_session()
                self._remove_files_without_session(session)
                own = SessionFile(self.file_of(session), term_ms)
                self._tree.add_session(session, os.getpid())
                self._seen = self._tree.last_change()
        except _SessionEnded:
            if own is not None:
                own.path.unlink(missing_ok=True)
                own.close()
            return False
        assert own is not None
        self.session, self._own, self._own_lease, self._database_switched = session, own, own, False
        return True

    def _remove_files_without_session(self, newest: int) -> None:
        """Remove session files without a session. Newer ones than `newest`, the newest known here, belong to the next
        database."""
        known = self._tree.sessions()
        for file in self._folder.iterdir():
            if file.name.isdigit() and int(file.name) <= newest and int(file.name) not in known:
                file.unlink(missing_ok=True)

    def file_of(self, session: int) -> Path:
        return self._folder / str(session)

    def address_of(self, session: int) -> str:
        """The address of a session: an abstract socket needs no cleanup and does not limit the length of the path."""
        return f"\0tidelog-{self._tree.name}-{session}"

    @contextmanager
    def _write_turn(self) -> Iterator[None]:
        """This process's turn to write, in the database that counts. _SessionEnded if the others skipped this process
        in the meantime: its commit may or may not count."""
        with self._turns.taken(self.session, self._own_lease):
            try:
                self._switch_database()
                yield
            finally:
                if not self._turns.is_current():
                    raise _SessionEnded

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction in this process's turn. Its commit is noted if it counts, which it does if nobody skipped this
        process before it was made."""
        with self._write_turn():
            with self._tree.writing():
                yield
            if self._tree.commits and self._turns.is_current():
                self._turns.note_commits(self._tree.commits)

    def _switch_database(self) -> None:
        """Switch to the database of this turn. The first holder of a turn creates it from what is committed in the one
        before."""
        database = self._turns.database()
        if database == self._database:
            return
        found = numbers(self.path)
        older = [number for number in found if number < self._turns.number]
        if older and older == found:
            ended, committed = self._turns.skipped_sessions(older[-1]), self._turns.noted_commits(older[-1])
            copy_tree(numbered(self.path, older[-1]), database, ended, self._turns.number - older[-1], committed)
            for session in ended:
                self.file_of(session).unlink(missing_ok=True)
        for number in older:
            remove_database(numbered(self.path, number))
        tree = SqliteTree(str(database), self._skeleton, self._turns.noted_commits(self._turns.number))
        if self._database is not None:
            self._tree.close()
        self._tree, self._database, self._database_switched = tree, database, True

    # `ports.MetadataStore`

    def apply(self, operations: Sequence[Operation]) -> StoreResult:
        try:
            with self._lock:
                if self.closed or self.lost:
                    return StoreResult("unknown")
                if operations and isinstance(operations[0], Query):
                    return self._answer(operations)
                return self._change(operations)
        except _SessionEnded:
            self.session_ended()
            return StoreResult("unknown")
        except _ERRORS:
            return StoreResult("unknown")

    def _answer(self, operations: Sequence[Operation]) -> StoreResult:
        """Answer queries. The result counts only if the database was still current afterwards, so a commit that does
        not count is never seen."""
        result = self._query(operations)
        if not self._turns.is_current():
            with self._write_turn():
                result = self._query(operations)
        return result

    def _query(self, operations: Sequence[Operation]) -> StoreResult:
        with self._tree.reading():
            self._check_session()
            for operation in operations:
                if isinstance(operation, Watch):
                    self._watched.setdefault(operation.path, self._tree.last_change())
            return StoreResult("ok", tuple(self._tree.query(operation) for operation in operations))

    def _change(self, operations: Sequence[Operation]) -> StoreResult:
        try:
            with self._transaction():
                self._check_session()
                values = self._tree.change(operations, self.session)
        except OperationConflict as conflict:
            return StoreResult("conflict", failed=conflict.index)
        self._keeper.notify(self._tree.sessions())
        return StoreResult("ok", tuple(values))

    def _check_session(self) -> None:
        if not self._tree.has_session(self.session):
            raise _SessionEnded

    def events(self) -> Sequence[str]:
        with self._lock:
            if self.closed or self.lost:
                return ()
            if not self._turns.is_current():
                self._switch_to_newest()
            if self._database_switched:
                self._database_switched = False
                self._seen = self._tree.last_change()
                self._watched = dict.fromkeys(self._watched, self._seen)
                return tuple(self._watched)
            first = self._seen
            self._seen, paths = self._tree.changes_since(first)
        if paths is None:
            return tuple(self._watched)
        changes = list(enumerate(paths, self._seen - len(paths) + 1))
        return tuple(watched for watched, since in self._watched.items() if _touched(watched, since, changes))

    def _switch_to_newest(self) -> None:
        """Take a turn, which switches to the current database; its change numbers differ."""
        with suppress(*_ERRORS, _SessionEnded), self._write_turn():
            """Taking the turn has switched the database."""

    def close(self) -> None:
        with self._lock:
            if self.closed:
                return
            self.closed = True
            with suppress(*_ERRORS, _SessionEnded):
                with self._transaction():
                    self._tree.end_session(self.session)
                self._keeper.notify(self._tree.sessions())
        self._keeper.stop()
        self.file_of(self.session).unlink(missing_ok=True)
        self._tree.close()
        self._own.close()
        self._turns.close()

    # Called by the keeper

    def tree_changed(self) -> None:
        self._notify()

    def session_ended(self) -> None:
        self.lost = True
        self._notify()

    def end_session(self, session: int) -> None:
        """End another session if it is over; the first to notice ends it."""
        with self._lock, suppress(*_ERRORS):
            if self.closed or self.lost or not self._tree.has_session(session):
                return
            try:
                with self._transaction():
                    ended = self._is_over(session) and self._tree.end_session(session)
            except _SessionEnded:
                self.session_ended()
                return
            if ended:
                self.file_of(session).unlink(missing_ok=True)
                self._keeper.notify(self._tree.sessions())

    def _is_over(self, session: int) -> bool:
        """Judge inside the transaction, because the turn to write may have come late."""
        file = self.file_of(session)
        return is_dead(file) or self._own.has_expired(read_lease(file))


def _touched(watched: str, since: int, changes: Sequence[tuple[int, str]]) -> bool:
    """Whether the watched path or a path below it changed after `since`."""
    below = watched.rstrip("/") + "/"
    return any(number > since and (path == watched or path.startswith(below)) for number, path in changes)
