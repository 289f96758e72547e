"""The metadata tree of a world whose brokers keep it themselves: what the committed records of their log make of it.

`LoggedTree.follow` takes what a node knows to be committed, before its effects are carried out: so checks see a change
of the tree before anything that follows from it. It compares what nodes commit, batch by batch (I36, I37).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidelog.controller.tree import SKELETON
from tidelog.node.quorum.member import QuorumMember
from tidelog.ports import Operation, StoreResult
from tidelog.quorum import tree as replicated
from tidelog.quorum.records import Decoded, SessionOpened, TreeChanges, decode
from tidelog.quorum.replica import Replica
from tidelog.sim.store import Tree
from tidelog.wire.records import records


@dataclass(slots=True)
class OwnSession:
    """The session of a life that opened it by a record of the log."""

    session: int
    alive: bool = True

    def events(self) -> Sequence[str]:
        """None: the node has watches of its own."""
        return ()

    @property
    def watched(self) -> Sequence[str]:
        return ()


class LoggedTree(Tree):
    """`version` counts the records that changed something; `writer` is the session of the last one."""

    def __init__(self) -> None:
        super().__init__(SKELETON)
        self._made = replicated.Tree(SKELETON)
        self.nodes = dict(self._made.nodes)
        self.created = 0
        self.applied = 0
        """The offset of the next record."""
        self._batches: dict[int, tuple[int, int]] = {}
        """Offset of a committed batch → (next offset, checksum)."""
        self._compared: dict[Replica, int] = {}

    def change(self, operations: Sequence[Operation], session: int) -> StoreResult:
        """Nobody changes the tree from outside."""
        del operations, session
        return StoreResult("conflict", failed=0)

    def expire(self, session: int) -> None:
        """The leader of the quorum ends sessions."""

    def follow(self, member: QuorumMember) -> Iterator[None]:
        """Take the records that the node knows to be committed; yields after each one that changed something."""
        replica = member.machine.replica if member.machine is not None else None
        if replica is None:
            return
        self._compare(replica)
        if replica.high_watermark <= self.applied:
            return
        for header, content in replica.committed(self.applied):
            if not header.is_control:
                for each in records(content):
                    yield from self._apply(each.offset, decode(each.value or b""))
            self.applied = header.next_offset

    def _apply(self, offset: int, record: Decoded) -> Iterator[None]:
        applied = self._made.apply(offset, record)
        if not applied.changed:
            return
        self.created = offset
        self.version += 1
        match record:
            case TreeChanges(session):
                self.writer = session
            case SessionOpened():
                self.writer = offset
            case _:
                self.writer = 0
        for path in applied.changed:
            if (node := self._made.nodes.get(path)) is None:
                self.nodes.pop(path, None)
            else:
                self.nodes[path] = node
        yield

    def _compare(self, replica: Replica) -> None:
        """What two nodes have committed at one offset is the same."""
        at = self._compared.get(replica, replica.log.log_start_offset)
        if replica.high_watermark <= at:
            return
        for header, _ in replica.committed(max(at, replica.log.log_start_offset)):
            found = (header.next_offset, header.crc)
            known = self._batches.setdefault(header.base_offset, found)
            assert known == found, f"I36: {replica} committed another batch at {header.base_offset}"
            at = header.next_offset
        self._compared[replica] = at

    def check_copy(self, member: QuorumMember) -> None:
        """I38: a node's tree is the one that the records before its offset make."""
        member.local.tree.check_invariants()
        if member.local.applied == self.applied:
            assert member.local.tree.nodes == self.nodes, f"I38: {member} has another tree"
