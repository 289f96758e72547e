"""`ports.MetadataStore` on one SQLite file: one machine, many processes.

- Every list of changes is one transaction that also checks the caller's own session, so a session that others have
  ended cannot write any more: its answers are `unknown`, and `lost` is set.
- Commit first, then notify: after each commit the writer rings one datagram socket a session. A ring carries nothing;
  whoever hears it reads what changed. A ring that was lost is made good at the next renewal (`PRAGMA data_version`).
- Writers queue on a lock file, so that they neither poll nor starve.

`apply`, `events` and `close` may be called from any thread, one at a time each. The store's own thread (the keeper)
renews the lease, hears rings, and ends the sessions of others that are over.
"""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from tidelog.controller.tree import SKELETON
from tidelog.ports import Operation, Query, StoreResult, Watch
from tidelog.shell.store.keeper import Keeper
from tidelog.shell.store.sessions import SessionFile, is_dead, read_lease
from tidelog.shell.store.sqlite_tree import Refused, SqliteTree

SESSION_TIMEOUT_MS = 9000


class _SessionEnded(Exception):
    """Others have ended this session."""


class SqliteStore:
    """One session with the tree in the file at `path`.

    `notify` is called, from any thread, when `events` may have something new or the session is `lost`; it only wakes
    somebody. `ticking` tells whether the process does its work; while it does not, the lease is not renewed.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        skeleton: Iterable[str] = SKELETON,
        notify: Callable[[], None] = lambda: None,
        ticking: Callable[[], bool] = lambda: True,
    ) -> None:
        self.path = Path(path).absolute()
        self.lost = False
        self.silent = False  # a file is always there
        self.closed = False
        self.ticking = ticking
        self._notify = notify
        self._folder = self.path.with_name(self.path.name + "-sessions")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._turn_fd = os.open(self._folder / "turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._lock = Lock()
        self._watched: dict[str, int] = {}
        try:
            with self._turn():
                self._tree = SqliteTree(str(self.path), skeleton)
                self._begin_session(session_timeout_ms)
        except BaseException:
            os.close(self._turn_fd)
            raise
        self._keeper = Keeper(self, self._own)
        self._keeper.start()
        self._keeper.ring(self._tree.sessions())

    def __repr__(self) -> str:
        return f"SqliteStore({self.path}, session {self.session}{', lost' if self.lost else ''})"

    def _begin_session(self, term_ms: int) -> None:
        """The lock is taken inside the transaction: nobody ever sees a session without it."""
        with self._tree.writing():
            for other in self._tree.sessions():
                if is_dead(self.file_of(other)):
                    self._tree.end_session(other)
            self._remove_files_without_session()
            self.session = self._tree.next_session()
            self._own = SessionFile(self.file_of(self.session), term_ms)
            self._tree.add_session(self.session, os.getpid())
            self._seen = self._tree.last_change()

    def _remove_files_without_session(self) -> None:
        known = {str(session) for session in self._tree.sessions()}
        for file in self._folder.iterdir():
            if file.name.isdigit() and file.name not in known:
                file.unlink(missing_ok=True)

    def file_of(self, session: int) -> Path:
        return self._folder / str(session)

    def address_of(self, session: int) -> str:
        """An abstract socket: no file to clean up, no limit on the length of the folder's path."""
        return f"\0tidelog-{self._tree.name}-{session}"

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """This process's turn to write, first come, first served."""
        fcntl.flock(self._turn_fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._turn_fd, fcntl.LOCK_UN)

    # The port

    def apply(self, operations: Sequence[Operation]) -> StoreResult:
        try:
            with self._lock:
                if self.closed or self.lost:
                    return StoreResult("unknown")
                if operations and isinstance(operations[0], Query):
                    return self._answer(operations)
                return self._change(operations)
        except _SessionEnded:
            self.ended()
            return StoreResult("unknown")
        except sqlite3.Error:
            return StoreResult("unknown")

    def _answer(self, operations: Sequence[Operation]) -> StoreResult:
        with self._tree.reading():
            self._check_session()
            for operation in operations:
                if isinstance(operation, Watch):
                    self._watched.setdefault(operation.path, self._tree.last_change())
            return StoreResult("ok", tuple(self._tree.query(operation) for operation in operations))

    def _change(self, operations: Sequence[Operation]) -> StoreResult:
        try:
            with self._turn(), self._tree.writing():
                self._check_session()
                values = self._tree.change(operations, self.session)
        except Refused as refused:
            return StoreResult("conflict", failed=refused.index)
        self._keeper.ring(self._tree.sessions())
        return StoreResult("ok", tuple(values))

    def _check_session(self) -> None:
        if not self._tree.has_session(self.session):
            raise _SessionEnded

    def events(self) -> Sequence[str]:
        with self._lock:
            if self.closed or self.lost:
                return ()
            first = self._seen
            self._seen, paths = self._tree.changes_since(first)
        if paths is None:
            return tuple(self._watched)
        numbered = list(enumerate(paths, self._seen - len(paths) + 1))
        return tuple(watched for watched, since in self._watched.items() if _touched(watched, since, numbered))

    def close(self) -> None:
        with self._lock:
            if self.closed:
                return
            self.closed = True
            with suppress(sqlite3.Error):
                with self._turn(), self._tree.writing():
                    self._tree.end_session(self.session)
                self._keeper.ring(self._tree.sessions())
        self._keeper.stop()
        self.file_of(self.session).unlink(missing_ok=True)
        self._tree.close()
        self._own.close()
        os.close(self._turn_fd)

    # What the keeper tells

    def committed(self) -> None:
        self._notify()

    def ended(self) -> None:
        self.lost = True
        self._notify()

    def end(self, session: int) -> None:
        """End another's session if it is over, whoever notices first."""
        with self._lock, suppress(sqlite3.Error):
            if self.closed or self.lost or not self._tree.has_session(session):
                return
            with self._turn(), self._tree.writing():
                ended = self._is_over(session) and self._tree.end_session(session)
            if ended:
                self.file_of(session).unlink(missing_ok=True)
                self._keeper.ring(self._tree.sessions())

    def _is_over(self, session: int) -> bool:
        """Judged inside the transaction, since the turn to write may have come late."""
        file = self.file_of(session)
        return is_dead(file) or self._own.outlived(read_lease(file))


def _touched(watched: str, since: int, changes: Sequence[tuple[int, str]]) -> bool:
    """Whether a change after `since` happened at the watched path or below it."""
    below = watched.rstrip("/") + "/"
    return any(number > since and (path == watched or path.startswith(below)) for number, path in changes)
