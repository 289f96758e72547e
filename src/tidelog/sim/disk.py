"""`ports.Disk` in memory: what the page cache holds, and what would survive a power loss.

A kill keeps the page cache. A power loss keeps what was synced; of the rest, whole blocks survive or not as the seed
says (512 B or 4 KiB), and so do unsynced directory entries: of each directory's changes a prefix survives, because a
journal keeps their order. A failed fsync discards dirty data, as on Linux, so trusting the next one loses data.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from random import Random

from tidelog.errors import DiskFailed, DiskFull
from tidelog.model import TopicPartition
from tidelog.node.log_dirs import partitions
from tidelog.ports import Buffer
from tidelog.sim.faults import KILL, POWER, REFUSE, Fault
from tidelog.sim.inode import (
    DirectoryChanges,
    DirectoryEntry,
    Inode,
    Names,
    apply_change,
    follow_rename,
    is_below,
    parent_of,
)

NO_ROOM = "ENOSPC"
GROWING = frozenset({"write", "create", "folder"})
"""Operations that a full disk refuses and that may succeed later."""


class PowerCut(BaseException):
    """The machine, or only the process (`SimDisk.ends_by`), died inside a disk operation; only the
    world catches it.
    """


class SimFile:
    """One open descriptor; unusable after `close`, except for slices that still need it."""

    def __init__(self, disk: "SimDisk", path: str, inode: Inode) -> None:
        self.disk = disk
        self.path = path
        self.inode = inode
        self.closed = False

    def __repr__(self) -> str:
        return f"SimFile({self.path}, {len(self.inode.cached)} B)"

    def size(self) -> int:
        return len(self.inode.cached)

    def read(self, position: int, length: int) -> bytes:
        self.disk.check("read", self.path)
        return bytes(self.inode.cached[position : position + length])

    def write(self, position: int, data: Buffer) -> None:
        assert not self.closed, f"write to closed {self.path}"
        self.disk.check("write", self.path, lambda part: self.inode.write(position, data[: int(len(data) * part)]))
        room = self.disk.room()
        grows = position + len(data) - len(self.inode.cached)
        if room is not None and grows > room:
            self.inode.write(position, data[: max(0, len(data) - (grows - room))])
            raise DiskFull(self.disk.root_of(self.path), f"ENOSPC: {self.path}")
        self.inode.write(position, data)

    def truncate(self, size: int) -> None:
        assert not self.closed, f"truncate of closed {self.path}"
        self.disk.check("truncate", self.path)
        self.inode.truncate(size)

    def sync(self) -> None:
        """Sync the data and, as the port requires, the names in its directory that are newer than the directory's last
        sync.
        """
        try:
            self.disk.check("sync", self.path)
        except DiskFailed:
            self.inode.forget_dirty()
            raise
        self.inode.sync()
        self.disk.settle(parent_of(self.path))

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.disk.open_files -= 1


class SimDisk:
    """The directories of one broker; `roots` are its log directories. The disk outlives the node that uses it.

    A log directory in `away` keeps its content, and the broker does not see it.
    """

    def __init__(self, roots: list[str], random: Random) -> None:
        self.roots = roots
        self.random = random
        self.names: dict[str, DirectoryEntry] = {}
        self.durable: dict[str, DirectoryEntry] = {}
        self.pending: DirectoryChanges = []
        self.faults: list[Fault] = []
        self.capacity: int | None = None
        self.operations_left: int | None = None
        self.verdict: Callable[[], str] | None = None
        """Called when no operations are left: what the process ends by (default: a power loss)."""
        self.ends_by = POWER
        self.open_files = 0
        self.away: set[str] = set()
        self.origins: dict[str, str] = {}
        """Log directories that moved to another path, and where they were created."""
        self.replaced: list[str] = []
        self.rotten: set[str] = set()
        """Directories with bit rot, whose synced data are not safe any more."""
        self.quiet = False
        """Whether faults are off: checks read what the broker would."""
        for root in roots:
            self.make_folder(root)

    def __repr__(self) -> str:
        return f"SimDisk({self.roots}, {len(self.names)} names, {self.open_files} open)"

    # Faults.

    def check(self, operation: str, path: str, tear: Callable[[float], None] | None = None) -> None:
        """Let injected faults strike before an operation; a power cut may tear a write."""
        if self.quiet:
            return
        if self.operations_left is not None:
            self.operations_left -= 1
            if self.operations_left < 0:
                self.die(POWER if self.verdict is None else self.verdict(), path, tear)
        for fault in self.faults:
            if fault.strikes(operation, path):
                self.strike(fault, operation, path, tear)

    def strike(self, fault: Fault, operation: str, path: str, tear: Callable[[float], None] | None) -> None:
        decided = fault.decides
        if decided in (POWER, KILL):
            self.die(decided, path, tear)
        if decided == REFUSE:
            if fault.torn and tear is not None:
                tear(self.random.random())
            refusal = DiskFull if fault.reason == NO_ROOM and operation in GROWING else DiskFailed
            raise refusal(self.root_of(path), f"{fault.reason}: {operation} {path}")

    def die(self, how: str, path: str, tear: Callable[[float], None] | None) -> None:
        if tear is not None:
            tear(self.random.random())
        self.ends_by = how
        self.operations_left = -1  # no later operation succeeds: the process died within a step
        raise PowerCut(path)

    def root_of(self, path: str) -> str:
        return next((root for root in self.roots if is_below(path, root)), self.roots[0])

    def room(self) -> int | None:
        return None if self.capacity is None else max(0, self.capacity - self.used())

    def used(self) -> int:
        return sum(len(entry.cached) for entry in self.names.values() if entry is not None)

    def kill(self) -> None:
        """End the process: descriptors are closed, the page cache stays."""
        self.open_files = 0
        self.operations_left = self.verdict = None
        self.ends_by = POWER

    def lose_power(self) -> None:
        """Keep only what was synced, and what the seed lets survive of the rest."""
        self.kill()
        for change in self.surviving(self.pending):
            apply_change(self.durable, change)
        self.pending = []
        self.names = {path: entry for path, entry in self.durable.items() if self.reachable(path)}
        self.durable = dict(self.names)
        for path in sorted(self.names):
            entry = self.names[path]
            if entry is not None:
                entry.lose_power(self.random)

    def surviving(self, pending: DirectoryChanges) -> DirectoryChanges:
        """Return the prefix of unsynced changes that survives: a journal commits in order."""
        chance = self.random.choice((0.0, 0.5, 1.0))
        count = 0
        while count < len(pending) and self.random.random() < chance:
            count += 1
        return pending[:count]

    def reachable(self, path: str) -> bool:
        parent = parent_of(path)
        return not parent or (parent in self.durable and self.reachable(parent))

    def erase(self, folder: str = "") -> None:
        """Replace the disk: nothing is left in this log directory, or in all, and no faults either."""
        self.faults.clear()
        self._discard(folder)
        self.replaced.append(self.origins.get(folder, folder))
        for root in self.roots if not folder else [folder]:
            self.make_folder(root)

    def _discard(self, folder: str) -> None:
        """Remove the content for good: no power loss brings it back."""
        self.names, self.durable = (
            {p: e for p, e in at.items() if not is_below(p, folder)} for at in (self.names, self.durable)
        )
        self.pending = [change for change in self.pending if not is_below(change[1], folder)]

    def directory_id(self, folder: str) -> bytes:
        """Return the ID as in meta.properties; no fault touches it."""
        origin = self.origins.get(folder, folder)
        return sha256(f"{sum(is_below(origin, each) for each in self.replaced)} {origin}".encode()).digest()[:16]

    def directory_of(self, path: str) -> bytes:
        """Return the ID of the log directory that holds the path."""
        return self.directory_id(self.root_of(path))

    def holds(self, directory: bytes) -> bool:
        """Whether the log directory with this ID was not replaced since; it may be unmounted."""
        return any(self.directory_id(root) == directory for root in self.roots)

    def shows(self, directory: bytes) -> bool:
        return any(self.directory_id(root) == directory for root in self.mounted)

    @property
    def mounted(self) -> list[str]:
        return [root for root in self.roots if root not in self.away]

    def mount(self) -> None:
        """Mount all log directories.

        A replica that was recreated meanwhile is kept, and the old one is removed, as Kafka asks its operators to do;
        brokers do not do that.
        """
        for folder in sorted(self.away):
            for name in sorted(self.held_in(*self.mounted) & self.held_in(folder)):
                self._discard(f"{folder}/{name}")
        self.away.clear()

    def held_in(self, *folders: str) -> set[TopicPartition]:
        """Return the replicas that a broker would find there, regardless of disk faults; a replica that a power loss
        left without a topic ID does not count.
        """
        quiet, self.quiet = self.quiet, True
        try:
            return {name for folder in folders for name, _, _ in partitions(self, folder)}
        finally:
            self.quiet = quiet

    def remount(self, places: Mapping[str, str]) -> None:
        """Move log directories to other paths with their content, while no process runs."""

        def found(path: str) -> str:
            old = next((old for old in places if is_below(path, old)), None)
            return path if old is None else places[old] + path[len(old) :]

        self.names, self.durable = (
            {found(path): entry for path, entry in at.items()} for at in (self.names, self.durable)
        )
        self.pending = [
            (
                f"rename:{found(kind[7:])}" if kind.startswith("rename:") else kind,
                found(path),
                entry,
                tuple(map(found, folders)),
            )
            for kind, path, entry, folders in self.pending
        ]
        self.origins = {found(root): self.origins.get(root, root) for root in self.roots}
        self.rotten = {found(path) for path in self.rotten}
        self.roots = [found(root) for root in self.roots]

    def flip(self, path: str, position: int) -> None:
        """Flip one bit of the file, on disk and in the page cache."""
        self.rotten.add(parent_of(path))
        inode = self.inode(path)
        if position < len(inode.cached):
            inode.turned[position] = inode.cached[position]
        for content in (inode.cached, inode.durable):
            if position < len(content):
                content[position] ^= 1

    def mend(self) -> None:
        """End all faults; what was lost stays lost."""
        self.faults.clear()
        self.capacity = self.operations_left = self.verdict = None

    # ports.Disk.

    def change(self, kind: str, path: str, entry: DirectoryEntry = None) -> None:
        change = (kind, path, entry, (parent_of(path), parent_of(kind.removeprefix("rename:"))))
        apply_change(self.names, change)
        self.pending.append(change)

    def inode(self, path: str) -> Inode:
        entry = self.names.get(path)
        if entry is None:
            raise FileNotFoundError(path)
        return entry

    def open(self, path: str, *, create: bool = False) -> SimFile:
        if create:
            self.check("create", path)
            if path in self.names:
                raise FileExistsError(path)
            if parent_of(path) not in self.names:
                raise FileNotFoundError(path)
            self.change("link", path, Inode())
        self.check("open", path)
        file = SimFile(self, path, self.inode(path))
        self.open_files += 1
        return file

    def exists(self, path: str) -> bool:
        return path in self.names

    def list(self, folder: str) -> Names:
        if folder not in self.names:
            raise FileNotFoundError(folder)
        below = [name[len(folder) + 1 :] for name in self.names if name.startswith(folder + "/")]
        return sorted([name for name in below if "/" not in name])

    def make_folder(self, path: str, *, durable: bool = True) -> None:
        self.check("folder", path)
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            folder = "/" + "/".join(parts[:depth])
            if folder not in self.names:
                self.change("link", folder)
                if durable:
                    self.settle(parent_of(folder))

    def read(self, path: str) -> bytes:
        self.check("read", path)
        return bytes(self.inode(path).cached)

    def replace(self, path: str, content: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        self.remove(temporary)
        file = self.open(temporary, create=True)
        try:
            file.write(0, content)
            if durable:
                file.sync()
        except DiskFull:
            with suppress(DiskFailed):
                self.remove(temporary)
            raise
        finally:
            file.close()
        self.rename(temporary, path)
        if durable:
            self.sync_folder(parent_of(path))

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        if source not in self.names:
            raise FileNotFoundError(source)
        if self.names.get(target) is None and target in self.names and self.list(target):
            raise DiskFailed(self.root_of(target), f"ENOTEMPTY: rename {source}")
        self.change("rename:" + source, target)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        if path in self.names:
            self.change("unlink", path)

    def sync_folder(self, path: str) -> None:
        self.check("sync", path)
        self.settle(path)

    def sync_soon(self, folder: str) -> None:
        """Make nothing durable."""

    def settle(self, folder: str) -> None:
        """Make changes in the folder durable; others stay pending."""
        left: DirectoryChanges = []
        for change in self.pending:
            if folder in change[3]:
                apply_change(self.durable, change)
                left = [follow_rename(earlier, change) for earlier in left]
            else:
                left.append(change)
        self.pending = left

    def usage(self, folder: str) -> tuple[int, int]:
        self.check("usage", folder)
        total = 1 << 40 if self.capacity is None else self.capacity
        return total, max(0, total - self.used())
