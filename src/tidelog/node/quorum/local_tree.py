"""This node's copy of the cluster's tree: the committed records of the metadata log, applied in order.

It begins with the newest snapshot that the replica has. A follower whose log starts over after a fetched snapshot loads
that one, in slices.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from tidelog.controller.tree import SKELETON
from tidelog.model import Time
from tidelog.ports import Operation, StoreResult
from tidelog.quorum import snapshots
from tidelog.quorum.records import Decoded, SessionOpened, TreeChanges, decode
from tidelog.quorum.replica import Replica
from tidelog.quorum.snapshots import SnapshotId
from tidelog.quorum.tree import Applied, Tree, TreeImage, Watches
from tidelog.wire.records import records

READ_BYTES = 262_144
"""How much of the log is read at once. A batch may be larger."""


class Outcome(NamedTuple):
    """A record, and what it did."""

    offset: int
    record: Decoded
    applied: Applied

    @property
    def work(self) -> int:
        """How many changes it had, and one."""
        return 1 + (len(self.record.changes) if isinstance(self.record, TreeChanges | SessionOpened) else 0)


class Due(NamedTuple):
    """A snapshot that should be made."""

    end_offset: int
    picture: TreeImage
    last_timestamp: int


class LocalTree:
    """`applied` is the offset of the next record. A snapshot is due after so many bytes of records, or so long after
    the last one if there are any."""

    def __init__(self, snapshot_bytes: int, snapshot_ms: int) -> None:
        self.tree = Tree(SKELETON)
        self.watches = Watches()
        self.applied = 0
        self._snapshot_bytes = snapshot_bytes
        self._snapshot_ms = snapshot_ms
        self._bytes_since = 0
        self._since: int | None = None
        """When the first record after the last snapshot was applied (monotonic ms)."""
        self._last_timestamp = -1
        self._loading: Generator[None, None, snapshots.Loaded] | None = None
        self._loads = SnapshotId(0, 0)

    def __repr__(self) -> str:
        return f"LocalTree({self.tree}, {self.applied})"

    def is_behind(self, replica: Replica) -> bool:
        """Whether there is more to do."""
        return self.applied < replica.high_watermark

    def load(self, replica: Replica) -> bool:
        """Go on loading the newest snapshot if the log before it was not applied, and is not there any more. Returns
        whether that came to its end now. CorruptLog if the snapshot is not whole."""
        newest = replica.snapshots.newest
        if self.applied >= max(replica.log.log_start_offset, min(newest.end_offset, 1)):
            return False
        if self._loading is None or self._loads != newest:
            path = replica.snapshots.path(newest)
            self._loads, self._loading = newest, snapshots.load(replica.disk.read(path), path, newest.epoch)
        try:
            next(self._loading)
        except StopIteration as end:
            loaded: snapshots.Loaded = end.value
            self._loading = None
            self.tree, self.applied, self._last_timestamp = loaded.tree, newest.end_offset, loaded.last_timestamp
            self._bytes_since, self._since = 0, None
            return True
        return False

    def advance(self, replica: Replica, now: Time) -> Iterator[list[Outcome]]:
        """Apply what is committed, batch by batch, as far as the caller goes on."""
        if self.applied < replica.log.log_start_offset:
            return
        for header, content in replica.committed(self.applied, READ_BYTES):
            outcomes: list[Outcome] = []
            if not header.is_control:
                for each in records(content):
                    record = decode(each.value or b"")
                    applied = self.tree.apply(each.offset, record)
                    self.watches.notice(applied.changed)
                    outcomes.append(Outcome(each.offset, record, applied))
            self.applied = header.next_offset
            self._last_timestamp = header.max_timestamp
            self._bytes_since += len(content)
            self._since = now.mono if self._since is None else self._since
            yield outcomes

    def due_snapshot(self, now: Time) -> Due | None:
        since = now.mono if self._since is None else self._since
        if not snapshots.is_due(
            self._bytes_since, now.mono - since, max_bytes=self._snapshot_bytes, interval_ms=self._snapshot_ms
        ):
            return None
        return Due(self.applied, self.tree.picture(), self._last_timestamp)

    def snapshot_begun(self) -> None:
        self._bytes_since, self._since = 0, None

    def answer(self, queries: Sequence[Operation]) -> StoreResult:
        return self.watches.answer(self.tree, queries)

    def end_watches(self) -> None:
        """Watches last as long as the session."""
        self.watches = Watches()
