"""Whose turn it is to write: a queue on a numbered lock file, and the database that has the same number.

A process that is stopped (SIGSTOP, a frozen container) inside a write keeps its locks, and nobody can take them from it
while it lives. So the others leave it behind: whoever waited until the holder's session was over makes the lock file of
the next number. From then on nothing counts that is committed under the old number. The first to hold the new lock
copies what is committed into the database of its number (`SqliteStore._settle`), and all go on there.

The order makes that exact. The new lock file is there before the copy begins, and a writer looks for it after its
commit. Where it finds none, its commit was before the copy and is in it; where it finds one, its answer is `unknown`
and its session is over. It does no harm to leave a process behind that only was slow.

`turn` and the plain name of the database are number 0, `turn.7` and the name with `.7` are number 7; the highest one
counts. Lock files stay: each takeover leaves an empty one.
"""

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread

from tidelog.shell.store.sqlite_sessions import SessionFile, read_lease

CHECKS_PER_TERM = 6
_STAMP = struct.Struct("<qq")
_NOBODY = _STAMP.pack(0, 0)


class Turns:
    """The queue as one session sees it. `number` is that of the last turn it had, or waits for."""

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
        """The database in which a write counts while the number is the highest."""
        return numbered(self._path, self.number)

    def is_current(self) -> bool:
        return not self._file(self.number + 1).exists()

    def skipped_sessions(self, since: int) -> set[int]:
        """The sessions that held the turns from `since` on when these were taken over."""
        files = [self._file(number) for number in range(since, self.number)]
        return {_holder(file.read_bytes()) for file in files if file.exists()} - {0}

    def holder_state(self) -> tuple[bytes, tuple[int, int] | None]:
        """What changes while the holder lives: whose turn it is and since when, and the holder's lease."""
        stamp = os.pread(self._fd, _STAMP.size, 0)
        session = _holder(stamp)
        return stamp, read_lease(self._locks.with_name(str(session))) if session else None

    @contextmanager
    def taken(self, session: int, own_lease: SessionFile | None) -> Iterator[None]:
        """This process's turn, first come, first served; `session` is 0 while it has none."""
        self._take(own_lease)
        try:
            self._write_stamp(_STAMP.pack(session, time.monotonic_ns()))
            yield
        finally:
            self._write_stamp(_NOBODY)  # else the next one would be taken for this one until it has signed
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _write_stamp(self, stamp: bytes) -> None:
        """On a full disk the turn is nobody's: who waits then counts the looks of a term."""
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
        """This file in place of the one before, whose lock goes with it."""
        before, self._fd = self._fd, fd
        os.close(before)

    def _wait(self, own_lease: SessionFile | None) -> bool:
        """True with the lock, False where there is a newer turn: it is made where the holder's session is over."""
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
    """The session in a lock file; 0 where it has none."""
    return int(_STAMP.unpack(stamp)[0]) if len(stamp) == _STAMP.size else 0


class _Waiter:
    """A thread that waits in flock: that has no time limit, and polling would lose the place in the queue."""

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
        """The file with the lock; None where there is none yet: the thread closes it as soon as it has it."""
        with self._mutex:
            self._stopped = True
            return self._fd if self.got.is_set() else None


class _HolderWatch:
    """Whether the holder's session is over: it gave no sign for a term, or its lease ran out.

    A term is so many looks, not a span of time: a waiter that was itself stopped has not waited meanwhile.
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
    """The numbers of which there is a file, in ascending order."""
    try:
        names = [each.name for each in path.parent.iterdir()]
    except FileNotFoundError:
        return []
    ends = [name.removeprefix(f"{path.name}.") for name in names if name.startswith(f"{path.name}.")]
    return sorted([int(end) for end in ends if end.isdecimal()] + [0] * (path.name in names))


def newest_database(path: Path) -> Path | None:
    """The database that counts, None where there is none."""
    found = numbers(path)
    return numbered(path, found[-1]) if found else None


def sync(path: Path) -> None:
    """Make a file, or what is in a folder, durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
