"""`ports.Disk` on the operating system: unbuffered descriptors, no memory mapping.

- A write is in the page cache when `write` returns, so SIGKILL loses nothing that was written.
- The first sync of a new or renamed file also syncs its folder; later syncs only the data.
- A closed or removed file stays readable through a `FileSlice` that holds it: the descriptor is closed with the last
  reference to the `OsFile`.
- Every error of the operating system is raised as `DiskFailed` with the log folder that holds the path.
"""

# The port passes paths as plain strings.
# ruff: noqa: PTH102, PTH104, PTH108, PTH112, PTH116, PTH118, PTH120, PTH123, PTH208

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import current_thread

from tidelog.errors import DiskFailed, DiskFull
from tidelog.ports import Buffer

LOCK_FILE = ".lock"
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class FolderLocked(Exception):
    """Another process holds the log folder."""


class OsFile:
    """One open, unbuffered file. Reads stay possible after `close` for as long as a slice holds the file."""

    __slots__ = ("_disk", "_fresh", "closed", "fd", "path")

    def __init__(self, disk: "OsDisk", path: str, fd: int, *, fresh: bool) -> None:
        self.path = path
        self.fd = fd
        self.closed = False
        self._disk = disk
        self._fresh = fresh

    def __repr__(self) -> str:
        return f"OsFile({self.path}{', closed' if self.closed else ''})"

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self.fd)

    def size(self) -> int:
        with self._disk.refusing(self.path):
            return os.fstat(self.fd).st_size

    def read(self, position: int, length: int) -> bytes:
        try:
            return os.pread(self.fd, length, position)
        except OSError as error:
            raise self._disk.failure(self.path, error) from error

    def write(self, position: int, data: Buffer) -> None:
        assert not self.closed, self
        try:
            written = os.pwrite(self.fd, data, position)
            length = data.nbytes if isinstance(data, memoryview) else len(data)
            while written < length:
                written += os.pwrite(self.fd, memoryview(data).cast("B")[written:], position + written)
        except OSError as error:
            raise self._disk.refusal(self.path, error) from error

    def truncate(self, size: int) -> None:
        assert not self.closed, self
        with self._disk.refusing(self.path):
            os.ftruncate(self.fd, size)

    def sync(self) -> None:
        with self._disk.refusing(self.path):
            if self._fresh:
                os.fsync(self.fd)
                self._fresh = False
            else:
                os.fdatasync(self.fd)
        self._disk.sync_renamed(os.path.dirname(self.path))

    def close(self) -> None:
        self.closed = True


class OsDisk:
    """The folders of one broker. `folders` are its log folders, which `DiskFailed` names."""

    file_type = OsFile

    def __init__(self, folders: Sequence[str] = ()) -> None:
        self.folders = tuple(folder.rstrip("/") for folder in folders)
        self._unsynced_folders: set[str] = set()

    def __repr__(self) -> str:
        return f"OsDisk({', '.join(self.folders)})"

    def failure(self, path: str, error: OSError) -> DiskFailed:
        return DiskFailed(self._home(path) or path, f"{path}: {error.strerror or error}")

    def _home(self, path: str) -> str | None:
        return next((folder for folder in self.folders if path == folder or path.startswith(folder + "/")), None)

    def _check_home(self, path: str) -> None:
        """Raise DiskFailed if the whole log folder is missing, not only the path."""
        home = self._home(path)
        if home is not None and path != home and not os.path.isdir(home):
            raise DiskFailed(home, "the log folder is gone")

    def refusal(self, path: str, error: OSError) -> DiskFailed:
        """The error of a write or of a new file, which may be that there is no room."""
        failed = self.failure(path, error)
        return DiskFull(failed.folder, failed.reason) if error.errno in NO_ROOM else failed

    @contextmanager
    def refusing(self, path: str, *, new: bool = False) -> Iterator[None]:
        """Raise errors of the operating system as `DiskFailed`, except for a path that is missing or already exists."""
        try:
            yield
        except FileNotFoundError:
            self._check_home(path)
            raise
        except FileExistsError:
            raise
        except OSError as error:
            raise (self.refusal if new else self.failure)(path, error) from error

    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC
        with self.refusing(path, new=create):
            if not create:
                return self.file_type(self, path, os.open(path, flags), fresh=False)
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
            file = self.file_type(self, path, fd, fresh=True)
        self._unsynced_folders.add(os.path.dirname(path))
        return file

    def exists(self, path: str) -> bool:
        with self.refusing(path):
            try:
                os.stat(path)
            except FileNotFoundError:
                return False
        return True

    def list(self, folder: str) -> list[str]:
        with self.refusing(folder):
            return sorted(os.listdir(folder))

    def make_folder(self, path: str, *, durable: bool = True) -> None:
        parent = os.path.dirname(path)
        with self.refusing(path, new=True):
            try:
                os.mkdir(path)
            except FileExistsError:
                return
            except FileNotFoundError:
                self._check_home(path)
                self.make_folder(parent)
                with suppress(FileExistsError):
                    os.mkdir(path)
        if durable:
            self.sync_folder(parent)

    def read(self, path: str) -> bytes:
        with self.refusing(path), open(path, "rb", buffering=0) as file:
            return file.readall() or b""

    def replace(self, path: str, content: bytes, *, durable: bool = True) -> None:
        temporary = f"{path}.{_lane()}.tmp"
        with self.refusing(path, new=True):
            try:
                _write_whole(temporary, content, durable=durable)
                os.rename(temporary, path)
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary)  # it may occupy the last free room
                raise
        if durable:
            self.sync_folder(os.path.dirname(path))

    def rename(self, source: str, target: str) -> None:
        with self.refusing(source):
            os.rename(source, target)
        self._unsynced_folders.add(os.path.dirname(target))

    def remove(self, path: str) -> None:
        with self.refusing(path), suppress(FileNotFoundError):
            try:
                os.unlink(path)
            except IsADirectoryError:
                shutil.rmtree(path)

    def sync_folder(self, path: str) -> None:
        self._unsynced_folders.discard(path)
        with self.refusing(path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def sync_soon(self, folder: str) -> None:
        """Start writing back with syncfs: one commit of the file system instead of one for each of thousands
        of files."""
        import ctypes

        with suppress(OSError, AttributeError):
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                ctypes.CDLL(None).syncfs(fd)
            finally:
                os.close(fd)

    def sync_renamed(self, folder: str) -> None:
        """Sync the folder if a name in it is newer than its last sync; a folder that is gone needs no sync."""
        if folder in self._unsynced_folders:
            with suppress(FileNotFoundError):
                self.sync_folder(folder)

    def usage(self, folder: str) -> tuple[int, int]:
        with self.refusing(folder):
            found = os.statvfs(folder)
        return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail


def _lane() -> str:
    """A suffix per thread: threads that replace the same file at the same time must not share a temporary file."""
    name = current_thread().name
    return name if name.startswith("pool-") else "loop"


def _write_whole(path: str, content: bytes, *, durable: bool) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        written = 0
        while written < len(content):
            written += os.write(fd, content[written:])
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def is_file_locked(path: str | os.PathLike[str]) -> bool:
    """Whether a process holds the lock (flock) of a file. Nothing is created or locked. OSError if the file cannot be
    opened."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def is_locked(folder: str) -> bool:
    """Whether a process holds the log folder; nothing is created there."""
    try:
        return is_file_locked(os.path.join(folder, LOCK_FILE))
    except OSError:
        return False


def lock_folder(folder: str) -> Callable[[], None]:
    """Lock the log folder for this process (Kafka's `.lock` file) until the returned function is called or the process
    ends."""
    fd = os.open(os.path.join(folder, LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise FolderLocked(folder) from error
    return lambda: os.close(fd)
