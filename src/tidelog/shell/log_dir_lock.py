"""A broker's log folders before it starts: created, locked, and checked to belong to this broker of this cluster.

A folder that the operating system cannot use is `offline` from the start, and the broker runs without it, unless no
folder is left. A configuration error (a folder of another process, cluster or broker) keeps the broker from starting.
"""

from collections.abc import Callable

from tidelog.errors import CorruptLog, DiskFailed
from tidelog.log.checkpoints import META_PROPERTIES, MetaProperties, format_meta_properties, read_meta_properties
from tidelog.shell.disk import FolderLocked, OsDisk, lock_folder


class CannotStart(Exception):
    """The broker cannot start; the message says why."""


class LogDirLock:
    """`offline`: folders that cannot be used, and why. `directories`: the directory.id of each other folder."""

    def __init__(self, disk: OsDisk) -> None:
        self._disk = disk
        self._locks: list[Callable[[], None]] = []
        self.offline: dict[str, str] = {}
        self.directories: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"LogDirLock({len(self._disk.folders)} folders, offline {sorted(self.offline)})"

    def lock(self) -> None:
        """Create and lock every folder, until `release` or the end of the process."""
        try:
            for folder in self._disk.folders:
                self._or_mark_offline(folder, self._lock)
        except CannotStart:
            self.release()
            raise

    def release(self) -> None:
        while self._locks:
            self._locks.pop()()

    def check_identity(self, cluster_id: str, node_id: int, entropy: Callable[[int], bytes]) -> None:
        """Check that each folder's meta.properties names this cluster and broker; create it where it is missing. Two
        folders must not share a directory.id: one would be a copy of the other."""
        ids: dict[bytes, str] = {}
        self.directories.clear()

        def check(folder: str) -> None:
            found = self._identity(folder, cluster_id, node_id, entropy)
            twin = ids.setdefault(found, folder)
            if twin != folder:
                raise CannotStart(f"Log folders {twin} and {folder} have the same directory.id.")
            self.directories[folder] = found

        for folder in self._disk.folders:
            if folder not in self.offline:
                self._or_mark_offline(folder, check)

    def _or_mark_offline(self, folder: str, do: Callable[[str], None]) -> None:
        try:
            do(folder)
        except FolderLocked:
            raise CannotStart(f"Log folder {folder} is used by another process.") from None
        except (DiskFailed, OSError) as error:
            self.offline[folder] = str(error)
            if len(self.offline) == len(self._disk.folders):
                raise CannotStart(f"Log folder {folder} cannot be used: {error}.") from error

    def _lock(self, folder: str) -> None:
        self._disk.make_folder(folder)
        self._locks.append(lock_folder(folder))

    def _identity(self, folder: str, cluster_id: str, node_id: int, entropy: Callable[[int], bytes]) -> bytes:
        """The folder's directory.id, generated now if it has none."""
        path = f"{folder}/{META_PROPERTIES}"
        found = self._read(path) if self._disk.exists(path) else MetaProperties(cluster_id, node_id)
        if found.cluster_id != cluster_id:
            raise CannotStart(f"Log folder {folder} belongs to cluster {found.cluster_id}, not to {cluster_id}.")
        if found.node_id != node_id:
            raise CannotStart(f"Log folder {folder} belongs to broker {found.node_id}, not to {node_id}.")
        if found.directory_id is not None:
            return found.directory_id
        drawn = entropy(16)
        self._disk.replace(path, format_meta_properties(found._replace(directory_id=drawn)))
        return drawn

    def identity(self, folder: str) -> MetaProperties:
        """What the checked folder's meta.properties says. CannotStart if the folder cannot be used."""
        if folder in self.offline:
            raise CannotStart(f"Log folder {folder} cannot be used: {self.offline[folder]}.")
        return self._read(f"{folder}/{META_PROPERTIES}")

    def _read(self, path: str) -> MetaProperties:
        try:
            return read_meta_properties(self._disk.read(path), path)
        except CorruptLog as error:
            raise CannotStart(f"{error}.") from error
