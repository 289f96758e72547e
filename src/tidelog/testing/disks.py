"""The seam between a broker and its disk: a full disk, a slow one, and what a power loss leaves of it.

A `DiskState` belongs to a broker and outlives its restarts. It keeps, for each file with data that no fsync covered,
what a power loss would leave: the size, and the bytes that were overwritten since. Names of files, and files that
`replace` wrote, count as durable at once.
"""

# The port passes paths as plain strings.
# ruff: noqa: PTH116

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tidelog.errors import DiskFull
from tidelog.ports import Buffer
from tidelog.shell.disk import OsDisk, OsFile

FULL = "no space left on device (injected by tidelog.testing)"


class _Durable:
    """What is durable of one file: its first `size` bytes, after `overwritten` is put back, last first."""

    __slots__ = ("overwritten", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.overwritten: list[tuple[int, bytes]] = []


class DiskState:
    """What happens to a broker's disk. The test's thread sets `is_full` and `wait_s`."""

    def __init__(self) -> None:
        self.is_full = False
        self.wait_s = 0.0
        """How long each write and each fsync takes in addition."""
        self._unflushed: dict[int, _Durable] = {}
        """By inode: a file keeps it when it is renamed."""

    def __repr__(self) -> str:
        full = "full" if self.is_full else "with room"
        return f"DiskState({full}, {len(self._unflushed)} files not flushed)"

    def wait(self) -> None:
        if self.wait_s:
            time.sleep(self.wait_s)

    def created(self, inode: int) -> None:
        self._unflushed[inode] = _Durable(0)

    def changes(self, fd: int, inode: int, start: int, end: int | None) -> None:
        """Bytes from `start` to `end` (None: all others) are about to be overwritten or cut off."""
        durable = self._unflushed.get(inode)
        if durable is None:
            durable = self._unflushed[inode] = _Durable(os.fstat(fd).st_size)
        kept = min(durable.size, durable.size if end is None else end)
        if start < kept:
            durable.overwritten.append((start, os.pread(fd, kept - start, start)))

    def flushes(self, inode: int) -> None:
        """Called before an fsync: what is written from now on may be lost."""
        self._unflushed.pop(inode, None)

    def lose_unflushed(self, folders: Sequence[str]) -> None:
        """Leave of the files in these folders what a power loss would. Their broker must not be running."""
        for folder in folders:
            for parent, _, names in os.walk(folder):
                for name in names:
                    self._revert(f"{parent}/{name}")
        self._unflushed.clear()

    def _revert(self, path: str) -> None:
        durable = self._unflushed.get(os.stat(path).st_ino)
        if durable is None:
            return
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            for position, content in reversed(durable.overwritten):
                os.pwrite(fd, content, position)
            os.ftruncate(fd, durable.size)
        finally:
            os.close(fd)


class DisturbedFile(OsFile):
    __slots__ = ("_inode", "_state")

    def __init__(self, disk: "DisturbedDisk", path: str, fd: int, *, fresh: bool) -> None:
        super().__init__(disk, path, fd, fresh=fresh)
        self._state = disk.state
        self._inode = os.fstat(fd).st_ino
        if fresh:
            self._state.created(self._inode)

    def write(self, position: int, data: Buffer) -> None:
        self._state.wait()
        end = position + (data.nbytes if isinstance(data, memoryview) else len(data))
        if self._state.is_full and end > os.fstat(self.fd).st_size:
            raise self._disk.full(self.path)  # type: ignore[attr-defined]
        self._state.changes(self.fd, self._inode, position, end)
        super().write(position, data)

    def truncate(self, size: int) -> None:
        self._state.changes(self.fd, self._inode, size, None)
        super().truncate(size)

    def sync(self) -> None:
        self._state.wait()
        self._state.flushes(self._inode)
        super().sync()


class DisturbedDisk(OsDisk):
    """A broker's disk, subject to `state`."""

    file_type = DisturbedFile  # type: ignore[assignment]

    def __init__(self, folders: Sequence[str], state: DiskState) -> None:
        super().__init__(folders)
        self.state = state

    def full(self, path: str) -> DiskFull:
        return DiskFull(self._home(path) or path, f"{path}: {FULL}")

    def open(self, path: str, *, create: bool = False) -> Any:
        if create:
            self._check_room(path)
        return super().open(path, create=create)

    def make_folder(self, path: str, *, durable: bool = True) -> None:
        if not self.exists(path):
            self._check_room(path)
        super().make_folder(path, durable=durable)

    def replace(self, path: str, content: bytes, *, durable: bool = True) -> None:
        self._check_room(path)
        if durable:
            self.state.wait()
        super().replace(path, content, durable=durable)
        with suppress(OSError):
            self.state.flushes(os.stat(path).st_ino)  # of a removed file, whose inode is used again

    def usage(self, folder: str) -> tuple[int, int]:
        total, usable = super().usage(folder)
        return total, 0 if self.state.is_full else usable

    def _check_room(self, path: str) -> None:
        if self.state.is_full:
            raise self.full(path)
