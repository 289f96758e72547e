"""Whose turn it is to write: a queue on a numbered lock file, and the database with the same number.

A process that is stopped (SIGSTOP, a frozen container) inside a write keeps its locks, and nobody can take them while
it lives. So the others skip it: a waiter that has waited until the holder's session is over creates the lock file of
the next number. From then on commits under the old number do not count. The first holder of the new lock copies what is
committed into the database of its number (`SqliteStore._switch_database`), and all sessions continue there.

The order makes this exact. The new lock file exists before the copy begins, and a writer checks for it after its
commit. If there is none, the commit came before the copy and is part of it. If there is one, the answer is `unknown`
and the session is over. Skipping a process that was only slow does no harm.

`turn` and the plain name of the database are number 0, `turn.7` and the name with `.7` are number 7; the highest number
counts. Lock files stay: each takeover leaves one.

A lock file also has the number of commits of its database. A database with fewer is damaged or older (`sqlite_seal`).
The note may be too low, never too high: it is written after a commit is durable, and read before the database. So it
needs no fsync.
"""

import fcntl
import os
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread

from tidelog.shell.store.sqlite_sessions import SessionFile, read_lease

CHECKS_PER_TERM = 6
_STAMP = struct.Struct("<qq")
_NOBODY = _STAMP.pack(0, 0)
_COMMITS = struct.Struct("<QI")


class Turns:
    """The queue as one session sees it. `number` is that of its last turn, or of the turn it waits for."""

    def __init__(self, path: Path, folder: Path, term_ms: int) -> None:
        self._path = path
        self._locks = folder / "turn"
        self._term_ms = term_ms
        self.number = self._highest()
        self._fd = _open(self._file(self.number))

    def __repr__(self) -> str:
        return f"Turns({self._path}, {self.number})"

    def _highest(self) -> int:
        return max(numbers(self._locks) + numbers(self._path), default=0)

    def _file(self, number: int) -> Path:
        return numbered(self._locks, number)

    def close(self) -> None:
        os.close(self._fd)

    def database(self) -> Path:
        """The database in which a write counts while `number` is the highest."""
        return numbered(self._path, self.number)

    def is_current(self) -> bool:
        return not self._file(self.number + 1).exists()

    def skipped_sessions(self, since: int) -> set[int]:
        """The sessions that held the turns from `since` on when those were taken over."""
        files = [self._file(number) for number in range(since, self.number)]
        return {_holder(file.read_bytes()) for file in files if file.exists()} - {0}

    def note_commits(self, commits: int) -> None:
        """Note, behind the stamp, how many commits the database of this turn has. Only the holder calls this."""
        number = commits.to_bytes(8, "little")
        with suppress(OSError):  # on a full disk there is an older note, which holds as well
            os.pwrite(self._fd, _COMMITS.pack(commits, zlib.crc32(number)), _STAMP.size)

    def noted_commits(self, number: int) -> int:
        """How many commits the database of that turn must have; 0 if none are noted, or the note itself is damaged."""
        with suppress(FileNotFoundError, struct.error):
            commits, checksum = _COMMITS.unpack_from(self._file(number).read_bytes(), _STAMP.size)
            if checksum == zlib.crc32(commits.to_bytes(8, "little")):
                return int(commits)
        return 0

    def holder_state(self) -> tuple[bytes, tuple[int, int] | None]:
        """What changes while the holder lives: the stamp (holder and time), and the lease of the holder."""
        stamp = os.pread(self._fd, _STAMP.size, 0)
        session = _holder(stamp)
        return stamp, read_lease(self._locks.with_name(str(session))) if session else None

    @contextmanager
    def taken(self, session: int, own_lease: SessionFile | None) -> Iterator[None]:
        """This process's turn, first come, first served; `session` is 0 before it has one."""
        self._take(own_lease)
        try:
            self._write_stamp(_STAMP.pack(session, time.monotonic_ns()))
            yield
        finally:
            self._write_stamp(_NOBODY)  # or waiters would take the next holder for this one until it writes its stamp
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _write_stamp(self, stamp: bytes) -> None:
        """Write the holder. On a full disk the turn has no holder, and waiters count the checks of a timeout."""
        with suppress(OSError):
            os.pwrite(self._fd, stamp, 0)

    def _take(self, own_lease: SessionFile | None) -> None:
        while True:
            if (self._try_lock() or self._wait(own_lease)) and self.is_current():
                return
            number = self._highest()
            self._replace_fd(_open(self._file(number)))
            self.number = number

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _replace_fd(self, fd: int) -> None:
        """Replace the lock file by this one; closing the old one releases its lock."""
        before, self._fd = self._fd, fd
        os.close(before)

    def _wait(self, own_lease: SessionFile | None) -> bool:
        """Wait for the lock; False if there is a newer turn. Create that turn when the session of the holder
        is over."""
        holder_watch = _HolderWatch(self, own_lease, self._term_ms)
        waiter = _Waiter(_open(self._file(self.number)))
        try:
            while not waiter.got.wait(self._term_ms / CHECKS_PER_TERM / 1000) and self.is_current():
                if holder_watch.is_over():
                    self._create_next()
        finally:
            fd = waiter.stop()
            if fd is not None:
                self._replace_fd(fd)
        return fd is not None

    def _create_next(self) -> None:
        os.close(_open(self._file(self.number + 1)))


def _open(file: Path) -> int:
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _holder(stamp: bytes) -> int:
    """The session in a lock file; 0 if there is none."""
    return int(_STAMP.unpack_from(stamp)[0]) if len(stamp) >= _STAMP.size else 0


class _Waiter:
    """A thread that waits in flock: flock has no timeout, and polling would lose the place in the queue."""

    def __init__(self, fd: int) -> None:
        self.got = Event()
        self._fd = fd
        self._mutex = Lock()
        self._stopped = False
        Thread(target=self._run, name="store-turn", daemon=True).start()

    def _run(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        with self._mutex:
            if self._stopped:
                os.close(self._fd)
            else:
                self.got.set()

    def stop(self) -> int | None:
        """The file if it is locked, else None: then the thread closes it as soon as it gets the lock."""
        with self._mutex:
            self._stopped = True
            return self._fd if self.got.is_set() else None


class _HolderWatch:
    """Whether the holder's session is over: nothing changed for a whole timeout, or its lease has expired.

    A timeout is a number of checks, not a span of time: a waiter that was itself stopped has not waited meanwhile.
    """

    def __init__(self, turns: Turns, own_lease: SessionFile | None, term_ms: int) -> None:
        self._turns = turns
        self._own_lease = own_lease
        self._term_ms = term_ms
        self._holder_state = turns.holder_state()
        self._unchanged_checks = 0

    def is_over(self) -> bool:
        holder_state = self._turns.holder_state()
        if holder_state != self._holder_state:
            self._holder_state, self._unchanged_checks = holder_state, 0
            return False
        self._unchanged_checks += 1
        lease = holder_state[1]
        if self._own_lease is not None and self._own_lease.has_expired(lease):
            return True
        term_ms = max(self._term_ms, lease[1]) if lease else self._term_ms
        return self._unchanged_checks * self._term_ms >= term_ms * CHECKS_PER_TERM


def numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


def numbers(path: Path) -> list[int]:
    """The numbers of which a file exists, in ascending order."""
    try:
        names = [each.name for each in path.parent.iterdir()]
    except FileNotFoundError:
        return []
    ends = [name.removeprefix(f"{path.name}.") for name in names if name.startswith(f"{path.name}.")]
    return sorted([int(end) for end in ends if end.isdecimal()] + [0] * (path.name in names))


def newest_database(path: Path) -> Path | None:
    """The database that counts; None if there is none."""
    found = numbers(path)
    return numbered(path, found[-1]) if found else None


def sync(path: Path) -> None:
    """Sync a file or a folder to disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
