"""What the process of one machine applied: the tree, from its newest snapshot and the committed records since."""

from collections.abc import Callable

from tidelog.quorum.records import Decoded, decode
from tidelog.quorum.replica import Replica
from tidelog.quorum.snapshots import load
from tidelog.quorum.tree import Applied, Tree
from tidelog.wire.records import records


class State:
    """`applied` is the offset of the next record, `timestamp` that of the last one."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.applied = 0
        self.timestamp = 0

    def __repr__(self) -> str:
        return f"State({self.tree}, {self.applied})"

    def advance(self, replica: Replica, applied: Callable[[int, Decoded, Applied], None]) -> None:
        """Apply what is committed; `applied` is called for each record."""
        newest = replica.snapshots.newest
        if self.applied < replica.log.log_start_offset or (self.applied == 0 and newest.end_offset > 0):
            self._load(replica)
        for header, content in replica.committed(self.applied):
            if not header.is_control:
                for each in records(content):
                    record = decode(each.value or b"")
                    applied(each.offset, record, self.tree.apply(each.offset, record))
            self.applied, self.timestamp = header.next_offset, header.max_timestamp

    def _load(self, replica: Replica) -> None:
        newest = replica.snapshots.newest
        path = replica.snapshots.path(newest)
        steps = load(replica.disk.read(path), path, newest.epoch)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                self.tree, self.timestamp = done.value.tree, done.value.last_timestamp
                break
        self.applied = newest.end_offset
