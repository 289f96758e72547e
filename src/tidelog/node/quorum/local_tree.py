"""This node's copy of the cluster's tree: the committed records of the metadata log, applied in order."""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.controller.tree import SKELETON
from tidelog.quorum.records import Decoded, SessionOpened, TreeChanges, decode
from tidelog.quorum.replica import Replica
from tidelog.quorum.tree import Applied, Tree, Watches
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


class LocalTree:
    """`applied` is the offset of the next record."""

    def __init__(self) -> None:
        self.tree = Tree(SKELETON)
        self.watches = Watches()
        self.applied = 0

    def __repr__(self) -> str:
        return f"LocalTree({self.tree}, {self.applied})"

    def is_behind(self, replica: Replica) -> bool:
        return self.applied < replica.high_watermark

    def advance(self, replica: Replica) -> Iterator[list[Outcome]]:
        """Apply what is committed, batch by batch, as far as the caller goes on."""
        for header, content in replica.committed(self.applied, READ_BYTES):
            outcomes: list[Outcome] = []
            if not header.is_control:
                for each in records(content):
                    record = decode(each.value or b"")
                    applied = self.tree.apply(each.offset, record)
                    self.watches.notice(applied.changed)
                    outcomes.append(Outcome(each.offset, record, applied))
            self.applied = header.next_offset
            yield outcomes

    def end_watches(self) -> None:
        """Watches last as long as the session."""
        self.watches = Watches()
