"""`ports.MetadataStore` in memory: one shared `Tree`, and one `Session` per broker.

The tree is exact and deterministic, and has no notion of time. The world decides when an operation is applied, whether
its response arrives, and when a session ends (`world.py`): that is how delays, unknown outcomes and expiry come in.
"""

from collections.abc import Sequence

from tidelog.controller.tree import SKELETON
from tidelog.ports import (
    ANY_VERSION,
    Check,
    Children,
    Create,
    Delete,
    Node,
    Operation,
    Query,
    Read,
    StoreResult,
    Watch,
    Write,
)

Value = Node | Sequence[str] | None


class RefusedOperation(Exception):
    """An operation of a list met a conflict."""


def parent_of(path: str) -> str:
    return path.rsplit("/", 1)[0]


class Staged:
    """The changes of one list of operations over the tree: all of them are applied, or none."""

    def __init__(self, nodes: dict[str, Node], created: int) -> None:
        self.nodes = nodes
        self.changed: dict[str, Node | None] = {}
        self.created = created

    def get(self, path: str) -> Node | None:
        return self.changed[path] if path in self.changed else self.nodes.get(path)

    def has_children(self, path: str) -> bool:
        candidates = {*self.nodes, *self.changed}
        return any(parent_of(other) == path and self.get(other) is not None for other in candidates)

    def at_version(self, path: str, version: int) -> Node:
        node = self.get(path)
        if node is None or version not in (ANY_VERSION, node.version):
            raise RefusedOperation
        return node

    def apply(self, operation: Operation, session: int) -> Value:
        match operation:
            case Create(path, data, ephemeral):
                return self.create(path, data, session if ephemeral else 0)
            case Write(path, data, version):
                old = self.at_version(path, version)
                self.changed[path] = written = Node(data, old.version + 1, old.created, old.session)
                return written
            case Delete(path, version):
                self.at_version(path, version)
                if self.has_children(path):
                    raise RefusedOperation
                self.changed[path] = None
            case Check(path, version):
                self.at_version(path, version)
        return None

    def create(self, path: str, data: bytes, session: int) -> Node:
        parent = self.get(parent_of(path))
        is_below_root = not parent_of(path)
        if self.get(path) is not None or not (is_below_root or (parent is not None and parent.session == 0)):
            raise RefusedOperation
        self.created += 1
        self.changed[path] = node = Node(data, 0, self.created, session)
        return node


class Tree:
    """What all sessions share. `created` is the store-wide creation number that becomes broker epochs."""

    def __init__(self, skeleton: Sequence[str] = SKELETON) -> None:
        self.nodes: dict[str, Node] = {}
        self.created = 0
        self.sessions: dict[int, Session] = {}
        self.next_session = 1
        self.version = 0
        """Counts the changes."""
        self.writer = 0
        """The session that requested the last change; 0 if a session ended."""
        for path in skeleton:
            self.created += 1
            self.nodes[path] = Node(b"", 0, self.created)

    def __repr__(self) -> str:
        return f"Tree({len(self.nodes)} nodes, {len(self.sessions)} sessions, created={self.created})"

    def session(self) -> "Session":
        session = Session(self, self.next_session)
        self.sessions[session.session] = session
        self.next_session += 1
        return session

    def change(self, operations: Sequence[Operation], session: int) -> StoreResult:
        staged = Staged(self.nodes, self.created)
        values: list[Value] = []
        for index, operation in enumerate(operations):
            try:
                values.append(staged.apply(operation, session))
            except RefusedOperation:
                return StoreResult("conflict", failed=index)
        self.commit(staged, session)
        return StoreResult("ok", tuple(values))

    def commit(self, staged: Staged, writer: int = 0) -> None:
        self.writer = writer
        self.created = staged.created
        self.version += 1
        for path, node in staged.changed.items():
            if node is None:
                self.nodes.pop(path, None)
            else:
                self.nodes[path] = node
            for session in self.sessions.values():
                session.notice(path)

    def children(self, path: str) -> tuple[str, ...] | None:
        if path != "/" and path not in self.nodes:
            return None
        prefix = path.rstrip("/") + "/"
        below = [other[len(prefix) :] for other in self.nodes if other.startswith(prefix)]
        return tuple(sorted([name for name in below if "/" not in name]))

    def expire(self, session: int) -> None:
        """End the session: its ephemeral nodes go at once."""
        if self.sessions.pop(session, None) is None:
            return
        staged = Staged(self.nodes, self.created)
        staged.changed = {path: None for path, node in self.nodes.items() if node.session == session}
        self.commit(staged)


class Session:
    """One broker's session with the tree; after its end every answer is `unknown` and nothing happens."""

    def __init__(self, tree: Tree, session: int) -> None:
        self.tree = tree
        self.session = session
        self.watched: list[str] = []
        self.pending: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"Session({self.session}, {'alive' if self.alive else 'ended'}, {len(self.watched)} watches)"

    @property
    def alive(self) -> bool:
        return self.session in self.tree.sessions

    def apply(self, operations: Sequence[Operation]) -> StoreResult:
        if not self.alive:
            return StoreResult("unknown")
        if operations and isinstance(operations[0], Query):
            return StoreResult("ok", tuple(self.answer(query) for query in operations))
        return self.tree.change(operations, self.session)

    def answer(self, query: Operation) -> Value:
        match query:
            case Read(path):
                return self.tree.nodes.get(path)
            case Children(path):
                return self.tree.children(path)
            case Watch(path):
                if path not in self.watched:
                    self.watched.append(path)
        return None

    def notice(self, changed: str) -> None:
        """Queue an event for each watched path at or above the changed one."""
        for path in self.watched:
            if path in ("/", changed) or changed.startswith(path + "/"):
                self.pending[path] = None

    def events(self) -> Sequence[str]:
        events, self.pending = tuple(self.pending), {}
        return events

    def close(self) -> None:
        self.tree.expire(self.session)
