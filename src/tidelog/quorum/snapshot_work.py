"""Snapshots that a replica is making or fetching, in slices: between two slices it does everything else.

Both are work in steps (`snapshots.Syncs`): files that a step names are synced before the next step, and only when all
steps are done the snapshot counts. Work that is given up ends after the sync in progress, because its file is in use.
"""

from collections.abc import Callable, Sequence

from tidelog.errors import CorruptLog
from tidelog.ports import Disk, File
from tidelog.quorum.outbox import Outbox
from tidelog.quorum.snapshots import Incoming, SnapshotId, Syncs


class Work:
    """Steps in progress. `done` is called after the last one."""

    def __init__(self, steps: Syncs, done: Callable[[], None], give_up: Callable[[], None]) -> None:
        self._steps = steps
        self._done = done
        self._give_up = give_up
        self._token: int | None = None
        self._is_dropped = False
        self.is_over = False

    def __repr__(self) -> str:
        return f"Work(sync {self._token}, over {self.is_over})"

    @property
    def is_ready(self) -> bool:
        """Whether the next step can be made now."""
        return self._token is None and not self.is_over

    def step(self, outbox: Outbox) -> None:
        """Make one step."""
        if self._is_dropped:
            self._finish(self._give_up)
            return
        try:
            files: Sequence[File] = next(self._steps)
        except StopIteration:
            self._finish(self._done)
            return
        except CorruptLog:
            self._finish(self._give_up)
            return
        if files:
            self._token = outbox.sync(files)

    def synced(self, token: int) -> bool:
        """Whether that was the token of its sync."""
        if token != self._token:
            return False
        self._token = None
        return True

    def drop(self) -> None:
        """Give it up."""
        self._is_dropped = True

    def _finish(self, how: Callable[[], None]) -> None:
        self.is_over = True
        self._steps.close()
        how()


class Fetching:
    """A snapshot that a follower fetches from the leader of one epoch. `work` checks it and makes it durable, once all
    of it is here."""

    def __init__(self, disk: Disk, folder: str, which: SnapshotId) -> None:
        self.id = which
        self.work: Work | None = None
        self._incoming = Incoming(disk, folder, which)

    def __repr__(self) -> str:
        return f"Fetching({self._incoming})"

    @property
    def position(self) -> int:
        return self._incoming.position

    def take(self, position: int, content: bytes | bytearray | memoryview, size: int) -> bool:
        """Write a slice of a file of `size` bytes; returns whether all of it is here."""
        if position == self.position:
            self._incoming.write(content)
        return self.position >= size

    def complete(self, size: int) -> Syncs:
        """The steps that make it count. CorruptLog if it is not whole."""
        for _ in self._incoming.check(size):
            yield ()
        yield from self._incoming.finish()

    def discard(self) -> None:
        self._incoming.discard()
