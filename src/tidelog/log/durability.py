"""What of a log is not durable yet, and the recovery point: everything below it is durable.

The log reports changes (`roll`, `dirty`, `names_changed`, …), `collect` returns the files to sync and starts a flush,
`complete` ends it. Files must become durable in this order: records before indexes, contents before the folder that
names them. A truncation limits the flushes in progress: later appends at the same offsets were not part of them.
"""

# ruff: noqa: ARG002  (FolderFile has a file's methods and needs none of their arguments)

from contextlib import suppress
from dataclasses import dataclass, field

from tidelog.errors import DiskFull
from tidelog.log.checkpoints import LEADER_EPOCHS, OLD, format_epochs
from tidelog.log.epochs import EpochCache
from tidelog.log.truncation_markers import ABOVE_ALL, TruncationMarkers
from tidelog.model import Time
from tidelog.ports import Buffer, Disk, File


class FolderFile:
    """A folder as a file that can only be synced, which makes its names durable."""

    __slots__ = ("_disk", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path

    def __repr__(self) -> str:
        return f"<FolderFile {self.path}>"

    def size(self) -> int:
        raise AssertionError(f"{self.path} is a folder")

    def read(self, position: int, length: int) -> bytes:
        raise AssertionError(f"{self.path} is a folder")

    def write(self, position: int, data: Buffer) -> None:
        raise AssertionError(f"{self.path} is a folder")

    def truncate(self, size: int) -> None:
        raise AssertionError(f"{self.path} is a folder")

    def sync(self) -> None:
        """A folder that was removed with its partition needs no sync."""
        with suppress(FileNotFoundError):
            self._disk.sync_folder(self.path)

    def close(self) -> None:
        """A folder has no descriptor."""


@dataclass(slots=True)
class Flush:
    """Files that are being synced. `requested_end` is the log's end when they were handed over, `durable_end` what
    still holds of it after truncations. `epoch_saves` counts how often the epochs had been saved by then. `opened`
    are closed once they are durable, which is `done`."""

    requested_end: int
    durable_end: int
    epoch_saves: int
    opened: list[File] = field(default_factory=list)
    done: bool = False


class Durability:
    """Every record below `recovery_point`, its indexes and its epochs are durable. `started` is the log's end at the
    last flush, `since` its time, and `now` the time of the last call (monotonic ms). `epochs_synced` is whether the
    `leader-epoch-checkpoint` on disk is durable."""

    __slots__ = (
        "_changed",
        "_disk",
        "_flushes",
        "_folder",
        "_rolled",
        "_saves",
        "_truncation_markers",
        "dirty",
        "due",
        "epochs_lag",
        "epochs_synced",
        "names_changed",
        "now",
        "recovery_point",
        "since",
        "started",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, folder: str, recovery_point: int, now: Time, truncation_markers: TruncationMarkers
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._rolled: list[str] = []
        self._changed: set[str] = set()
        self._flushes: list[Flush] = []
        self._truncation_markers = truncation_markers
        self.recovery_point = recovery_point
        self.started = recovery_point
        self.since = self.now = now.mono
        self.dirty = self.due = False
        self.names_changed = self.epochs_lag = self.epochs_synced = False
        self._saves = 0

    def __repr__(self) -> str:
        return f"<Durability to {self.recovery_point}, {len(self._rolled)} rolled, {len(self._flushes)} under way>"

    @property
    def is_idle(self) -> bool:
        """Whether nothing has to be synced."""
        return not (self.dirty or self.names_changed or self._rolled or self._changed)

    def is_due(self, end_offset: int, messages: int, ms: int, now: int) -> bool:
        """Whether to flush at this time (monotonic ms)."""
        self.now = now
        return self.due or (self.dirty and (end_offset - self.started >= messages or now - self.since >= ms))

    def roll(self, paths: list[str], *, due: bool = True) -> None:
        """A segment was rolled: its files are not written again, and are synced at once, whatever flush.messages says.
        Files that recovery rewrote are not `due`: they wait for the next flush."""
        self._rolled.extend(paths)
        self.names_changed = True
        self.due = self.due or due

    def change(self, path: str) -> None:
        """A small file was replaced."""
        self._changed.add(path)
        self.names_changed = True

    def save_epochs(self, epochs: EpochCache) -> None:
        """Write `leader-epoch-checkpoint`. After DiskFull it lags: it may contain epochs that the log does not have,
        which recovery drops, but nothing may be appended with an epoch that it lacks.

        A power loss before the next flush may tear the new file, and only the checkpoint has the epochs that compaction
        left without a batch. The last synced file therefore stays next to it.
        """
        path = f"{self._folder}/{LEADER_EPOCHS}"
        self.epochs_lag = True
        rotated = self.epochs_synced and self._disk.exists(path)
        if rotated:
            self._disk.rename(path, path + OLD)
        try:
            self._disk.replace(path, format_epochs(epochs), durable=False)
        except DiskFull:
            if rotated:
                self._disk.rename(path + OLD, path)
            raise
        self.epochs_lag = self.epochs_synced = False
        self._saves += 1
        self.change(path)

    def collect(self, end_offset: int, active: File | None) -> list[File]:
        """The files to sync, in order, to make everything below `end_offset` durable."""
        paths = dict.fromkeys([*self._rolled, *sorted(self._changed)])
        opened = [self._disk.open(path) for path in paths if self._disk.exists(path)]
        self._flushes.append(Flush(end_offset, end_offset, self._saves, opened))
        files = [*opened, *([active] if active is not None and self.dirty else [])]
        if self.names_changed:
            files.append(FolderFile(self._disk, self._folder))
        self._rolled = []
        self._changed = set()
        self.dirty = self.names_changed = self.due = False
        self.started = end_offset
        self.since = self.now
        return files

    def complete(self, offset: int, end_offset: int) -> bool:
        """The files collected when the log ended at `offset` were synced; returns whether the recovery point moved. It
        waits for earlier flushes, because those have other files."""
        waiting = [flush for flush in self._flushes if not flush.done]
        exact = (flush for flush in waiting if flush.requested_end == offset)
        finished = next(exact, None) or next((flush for flush in waiting if flush.requested_end <= offset), None)
        if finished is None:
            return False
        finished.done = True
        close(finished.opened)
        before = self.recovery_point
        while self._flushes and self._flushes[0].done:
            flush = self._flushes.pop(0)
            self.recovery_point = max(self.recovery_point, min(flush.durable_end, end_offset))
            self.epochs_synced = self.epochs_synced or flush.epoch_saves == self._saves
        self._truncation_markers.lift(self.recovery_point)
        return self.recovery_point > before

    def sync_all(self, end_offset: int, active: File) -> None:
        """Sync everything now, including flushes in progress: the log is being closed."""
        self.dirty = True
        for file in self.collect(end_offset, active):
            file.sync()
        for flush in self._flushes[:-1]:
            for file in flush.opened:
                file.sync()
        self.close()
        self.recovery_point = end_offset
        self._truncation_markers.lift(ABOVE_ALL)

    def truncate(self, offset: int) -> None:
        """The log ends at `offset` now, and other records will follow."""
        self.dirty = True
        self._truncation_markers.put(offset, self.recovery_point)
        self.recovery_point = min(self.recovery_point, offset)
        self.started = min(self.started, offset)
        for flush in self._flushes:
            flush.durable_end = min(flush.durable_end, offset)

    def forget(self, paths: list[str]) -> None:
        """These files were removed and need no sync."""
        gone = set(paths)
        self._rolled = [path for path in self._rolled if path not in gone]
        self._changed -= gone
        self.names_changed = True

    def close(self) -> None:
        for flush in self._flushes:
            close(flush.opened)
        self._flushes = []


def close(files: list[File]) -> None:
    for file in files:
        file.close()
