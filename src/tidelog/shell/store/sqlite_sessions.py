"""Which sessions of a store are alive: a lock that the kernel drops when a process dies, and a lease for paused
processes.

Each session has one small file. Its owner holds an exclusive flock on it while the process lives, and writes its lease
there: the time of the last renewal on the boot clock, and the session timeout. The lease needs no fsync, since a
restart of the machine drops all locks. A session is over when

- its lock is free: its process is dead. A thread that waits in flock learns this at once, without polling; or
- its lease is older than its timeout. Only a process that renewed its own lease during that whole time may judge this,
  so a disk or machine that stalls for all ends no session.
"""

import fcntl
import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

from tidelog.shell.disk import is_file_locked

_LEASE = struct.Struct("<qq")


def boot_ms() -> int:
    """Milliseconds of the boot clock: it also runs while the machine sleeps, and is the same in every process."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class SessionFile:
    """The owner's side of a session: the lock and the lease."""

    def __init__(self, path: Path, term_ms: int) -> None:
        self.path = path
        self.term_ms = term_ms
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.renewed_at = self.continuous_since = boot_ms()
        self.renew()

    def __repr__(self) -> str:
        return f"SessionFile({self.path})"

    def renew(self) -> None:
        """Write the lease. After a gap of half a timeout this process must observe others for a whole timeout again."""
        now = boot_ms()
        os.pwrite(self._fd, _LEASE.pack(now, self.term_ms), 0)
        if now - self.renewed_at > self.term_ms // 2:
            self.continuous_since = now
        self.renewed_at = now

    def close(self) -> None:
        os.close(self._fd)

    def has_expired(self, lease: tuple[int, int] | None) -> bool:
        """Whether the lease of another session has expired, as far as this process may judge it."""
        if lease is None:
            return False
        now = boot_ms()
        renewed_at, term_ms = lease
        return self.renewed_at + self.term_ms // 2 > now and now - max(renewed_at, self.continuous_since) >= term_ms


def read_lease(path: Path) -> tuple[int, int] | None:
    """(last renewal, timeout) of a session file; None if there is no file."""
    with suppress(FileNotFoundError, struct.error):
        return _LEASE.unpack(path.read_bytes())
    return None


def is_dead(path: Path) -> bool:
    """Whether no process holds the lock of the session."""
    try:
        return not is_file_locked(path)
    except FileNotFoundError:
        return True


def when_dead(path: Path, callback: Callable[[], None]) -> None:
    """Call `callback` on a new thread as soon as no process holds the lock of the session."""

    def wait() -> None:
        with suppress(FileNotFoundError):
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH)
            finally:
                os.close(fd)
        callback()

    Thread(target=wait, name=f"session-{path.name}", daemon=True).start()
