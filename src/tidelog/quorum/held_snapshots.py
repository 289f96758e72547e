"""The snapshots in the folder of one replica: which there are, slices of them for others, and which are kept."""

from tidelog.ports import Disk
from tidelog.quorum.snapshots import Held, SnapshotId, first_kept, heading, held

BOOTSTRAP = SnapshotId(0, 0)
"""What a formatted folder begins with. It is never sent to others."""


class HeldSnapshots:
    """The oldest first. All are whole and durable; their content is read when they are loaded or sent."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._held: list[Held] = []
        for which in held(disk.list(folder)) if disk.exists(folder) else ():
            self.add(which)

    def __repr__(self) -> str:
        return f"HeldSnapshots({', '.join(each.id.file_name for each in self._held)})"

    def __contains__(self, which: SnapshotId) -> bool:
        return any(each.id == which for each in self._held)

    @property
    def newest(self) -> SnapshotId:
        """BOOTSTRAP if there is none."""
        return self._held[-1].id if self._held else BOOTSTRAP

    @property
    def oldest(self) -> SnapshotId:
        return self._held[0].id if self._held else BOOTSTRAP

    def add(self, which: SnapshotId) -> None:
        """A snapshot became durable. CorruptLog if it does not begin as one does."""
        file = self._disk.open(self.path(which))
        found = Held(which, file.size(), heading(self._disk, self._folder, which).last_timestamp)
        file.close()
        self._held = sorted([*(each for each in self._held if each.id != which), found])

    def path(self, which: SnapshotId) -> str:
        return f"{self._folder}/{which.file_name}"

    def size(self, which: SnapshotId) -> int:
        return next(each.size for each in self._held if each.id == which)

    def read(self, which: SnapshotId, position: int, most: int) -> bytes:
        """A slice of its file."""
        file = self._disk.open(self.path(which))
        content = file.read(position, most)
        file.close()
        return content

    def retain(self, log_bytes: int, now_wall: int, *, retention_bytes: int, retention_ms: int) -> None:
        """Remove the snapshots that are beyond the retention, but never the newest."""
        if self._held:
            first = first_kept(
                self._held, log_bytes, now_wall, retention_bytes=retention_bytes, retention_ms=retention_ms
            )
            self.remove_before(first)

    def remove_before(self, first: SnapshotId) -> None:
        while self._held and self._held[0].id < first:
            self._disk.remove(self.path(self._held.pop(0).id))
