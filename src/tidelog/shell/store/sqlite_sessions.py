"""Which sessions of a store still live: a lock that the kernel drops when a process dies, and a lease for pauses.

Each session has one small file. Its owner holds an exclusive flock on it for as long as the process lives, and writes
its lease there: the moment of the last renewal on the boot clock, and the term. The lease needs no fsync, since a
restarted machine has dropped all locks. A session is over when

- its lock can be had: its process is dead. Whoever waits in flock learns it at once, without polling; or
- its lease is older than its term, judged only by a process that renewed its own during that whole term. So a disk or
  a machine that stood still for everybody ends nobody's session.
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
    """The clock that also runs while the machine sleeps, and is the same in every process."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class SessionFile:
    """The owner's side: the lock, and the lease."""

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
        """Write the lease. A gap of half a term starts anew what this process may judge of others."""
        now = boot_ms()
        os.pwrite(self._fd, _LEASE.pack(now, self.term_ms), 0)
        if now - self.renewed_at > self.term_ms // 2:
            self.continuous_since = now
        self.renewed_at = now

    def close(self) -> None:
        os.close(self._fd)

    def has_expired(self, lease: tuple[int, int] | None) -> bool:
        """Whether this process may judge that the other's lease ran out."""
        if lease is None:
            return False
        now = boot_ms()
        renewed_at, term_ms = lease
        return self.renewed_at + self.term_ms // 2 > now and now - max(renewed_at, self.continuous_since) >= term_ms


def read_lease(path: Path) -> tuple[int, int] | None:
    """(last renewal, term) of a session's file, or None where there is none."""
    with suppress(FileNotFoundError, struct.error):
        return _LEASE.unpack(path.read_bytes())
    return None


def is_dead(path: Path) -> bool:
    """Whether nobody holds the session's lock any more."""
    try:
        return not is_file_locked(path)
    except FileNotFoundError:
        return True


def when_dead(path: Path, callback: Callable[[], None]) -> None:
    """Call `callback` from a thread of its own as soon as nobody holds the session's lock."""

    def wait() -> None:
        with suppress(FileNotFoundError):
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH)
            finally:
                os.close(fd)
        callback()

    Thread(target=wait, name=f"session-{path.name}", daemon=True).start()
