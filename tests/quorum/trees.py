"""A tree of the metadata quorum beside the one of the simulator, which keeps its own nodes and session numbers."""

from collections.abc import Sequence

from tidelog.controller.tree import SKELETON
from tidelog.ports import Node, Operation, Query, StoreResult
from tidelog.quorum.records import OpenSession, SessionEnded, SessionOpened, TreeChanges, decode, encode
from tidelog.quorum.tree import Applied, Tree, Watches
from tidelog.sim.store import Session
from tidelog.sim.store import Tree as Ghost


def through_bytes(record):
    """The record as it comes out of the log."""
    return decode(encode(record))


class Replica:
    """A tree that is fed with records at ascending offsets, with gaps as control records leave them."""

    def __init__(self) -> None:
        self.tree = Tree(SKELETON)
        self.offset = 5
        self.brokers = 0
        self.numbers: dict[int, int] = {}
        self.watches: dict[int, Watches] = {}

    def append(self, record) -> Applied:
        self.offset += 1 + self.offset % 2
        applied = self.tree.apply(self.offset, through_bytes(record))
        for session, watches in self.watches.items():
            if session in self.tree.sessions:
                watches.notice(applied.changed)
        return applied

    def open(self) -> int:
        self.brokers += 1
        incarnation = self.brokers.to_bytes(16, "big")
        assert self.append(SessionOpened(self.brokers, incarnation, (), 0, ())).verdict == "ok"
        self.watches[self.offset] = Watches()
        return self.offset

    def change(self, session: int, changes: Sequence[Operation]) -> Applied:
        self.numbers[session] = self.numbers.get(session, 0) + 1
        return self.append(TreeChanges(session, self.numbers[session], tuple(changes)))

    def end(self, session: int) -> Applied:
        return self.append(SessionEnded(session, "test"))


class QuorumStore:
    """`ports.MetadataStore` over a replica, as the world of a store gives it to a node."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.session = replica.open()

    @property
    def alive(self) -> bool:
        return self.session in self.replica.tree.sessions

    def apply(self, operations: Sequence[Operation]) -> StoreResult:
        if not self.alive:
            return StoreResult("unknown")
        if operations and isinstance(operations[0], Query):
            return self.replica.watches[self.session].answer(self.replica.tree, operations)
        return self.replica.change(self.session, operations).store_result()

    def events(self) -> Sequence[str]:
        return self.replica.watches[self.session].events() if self.alive else ()

    def close(self) -> None:
        self.replica.end(self.session)


class Both:
    """Every step on both trees; their answers must be the same."""

    def __init__(self, sessions: int) -> None:
        self.ghost = Ghost(SKELETON)
        self.replica = Replica()
        self.pairs: list[tuple[Session, int]] = [(self.ghost.session(), self.replica.open()) for _ in range(sessions)]

    def change(self, who: int, changes: Sequence[Operation]) -> None:
        session, ours = self.pairs[who]
        expected = session.apply(changes)
        applied = self.replica.change(ours, changes)
        assert self.plain(expected) == self.plain(applied.store_result()), changes
        self.compare()

    def query(self, who: int, queries: Sequence[Operation]) -> None:
        session, ours = self.pairs[who]
        expected = session.apply(queries)
        if session.alive:
            found = self.replica.watches[ours].answer(self.replica.tree, queries)
            assert self.plain(expected) == self.plain(found)
            assert sorted(session.events()) == sorted(self.replica.watches[ours].events())

    def end(self, who: int) -> None:
        session, ours = self.pairs[who]
        assert self.replica.end(ours).verdict == ("ok" if session.alive else "session over")
        session.close()
        self.compare()

    def plain(self, result: StoreResult) -> StoreResult:
        return result._replace(values=tuple(self.value(value) for value in result.values))

    def value(self, value):
        """Without the numbers that each tree gives."""
        return value._replace(created=0, session=self.who(value.session)) if isinstance(value, Node) else value

    def who(self, session: int) -> int:
        """Session numbers of the ghost are small, ours are offsets of registrations."""
        return next(
            (index for index, (theirs, ours) in enumerate(self.pairs, 1) if session in (theirs.session, ours)), 0
        )

    def compare(self) -> None:
        self.replica.tree.check_invariants()
        expected = {path: self.value(node) for path, node in self.ghost.nodes.items()}
        assert {path: self.value(node) for path, node in self.replica.tree.nodes.items()} == expected


def opened(broker: int, session: int = 0) -> OpenSession:
    return OpenSession(session or broker * 100, broker, broker.to_bytes(16, "big"), (b"d" * 16,), 3)
