"""The thread that keeps one session of the SQLite store: it renews the lease, receives notifications, and watches other
sessions.

It sleeps in the kernel until a notification arrives or the next renewal is due. It has its own connection and takes no
lock, so a writer that waits for its turn never delays the renewal of the lease.
"""

import socket
import sqlite3
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Protocol

from tidelog.shell.store.sqlite_sessions import SessionFile, boot_ms, read_lease, when_dead
from tidelog.shell.store.sqlite_tree import open_existing
from tidelog.shell.store.sqlite_turns import newest_database

RENEWALS_PER_TERM = 6


class KeeperOwner(Protocol):
    """The store as the keeper sees it."""

    session: int
    path: Path

    def file_of(self, session: int) -> Path: ...

    def address_of(self, session: int) -> str: ...

    def is_alive(self) -> bool: ...

    def tree_changed(self) -> None:
        """Some session committed a change."""

    def session_ended(self) -> None:
        """Other sessions have ended this session."""

    def end_session(self, session: int) -> None:
        """Another session seems to have expired."""


class Keeper:
    """Runs from `start` to `stop`."""

    def __init__(self, store: KeeperOwner, own: SessionFile) -> None:
        self._store = store
        self._own = own
        self._watched_sessions: set[int] = set()
        self._stopping = False
        self._seen_version = -1
        self._database: Path | None = None
        self._receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._receiver.bind(store.address_of(store.session))
        self._receiver.settimeout(own.term_ms / RENEWALS_PER_TERM / 1000)
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)
        self._thread = Thread(target=self._run, name="store-keeper", daemon=True)

    def __repr__(self) -> str:
        return f"Keeper(session {self._store.session}, guards {sorted(self._watched_sessions)})"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self.notify([self._store.session])
        self._thread.join()
        self._receiver.close()
        self._sender.close()

    def notify(self, sessions: list[int]) -> None:
        """Wake the keepers of these sessions. A full socket already has a notification pending; a missing socket has no
        receiver."""
        for session in sessions:
            with suppress(OSError):
                self._sender.sendto(b"", self._store.address_of(session))

    def _run(self) -> None:
        self._db = sqlite3.connect(":memory:")
        try:
            due = boot_ms()
            while not self._stopping:
                if boot_ms() >= due:
                    due = boot_ms() + self._own.term_ms // RENEWALS_PER_TERM
                    self._renew()
                with suppress(sqlite3.Error):
                    self._check_for_changes()
                with suppress(TimeoutError):
                    self._receiver.recv(1)
        finally:
            self._db.close()

    def _renew(self) -> None:
        if not self._store.is_alive():
            return
        with suppress(OSError):
            self._own.renew()
        for other in self._watched_sessions:
            if self._own.has_expired(read_lease(self._store.file_of(other))):
                Thread(target=self._store.end_session, args=(other,), daemon=True).start()

    def _check_for_changes(self) -> None:
        """Report changes since the last check, whether or not their notification arrived."""
        self._switch_to_newest()
        version = self._db.execute("PRAGMA data_version").fetchone()[0]
        if version == self._seen_version:
            return
        sessions = {row[0] for row in self._db.execute("SELECT session FROM sessions")}
        if newest_database(self._store.path) != self._database:
            return  # the database was replaced meanwhile: read the next one at the next check
        self._seen_version = version
        if self._store.session not in sessions:
            self._store.session_ended()
            return
        sessions.discard(self._store.session)
        for other in sessions - self._watched_sessions:
            when_dead(self._store.file_of(other), partial(self._store.end_session, other))
        self._watched_sessions = sessions
        self._store.tree_changed()

    def _switch_to_newest(self) -> None:
        """Open the database that counts (`sqlite_turns`)."""
        newest = newest_database(self._store.path)
        if newest is not None and newest != self._database:
            there = open_existing(newest)
            self._db.close()
            self._db, self._database, self._seen_version = there, newest, -1
