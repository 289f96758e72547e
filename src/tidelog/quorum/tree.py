"""The cluster's tree as the committed records of the metadata log make it, the same on every node.

`Tree.apply` judges a record and applies it, or leaves the tree as it was: what a record does depends only on those
before it. Nodes that a record creates get its offset as their creation number, so a broker's epoch is the offset of its
registration. Sessions are part of the tree; when one ends is decided by its record, not here. `Watches` is what one
node watches of its own copy.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from tidelog.ports import (
    ANY_VERSION,
    Change,
    Check,
    Children,
    Create,
    Delete,
    Node,
    Operation,
    Read,
    StoreResult,
    Watch,
    Write,
)
from tidelog.quorum.records import (
    NO_SESSION,
    Decoded,
    LastSession,
    OpenSession,
    SessionEnded,
    SessionOpened,
    SnapshotRecord,
    StoredNode,
    TreeChanges,
)

Value = Node | Sequence[str] | None
Verdict = Literal["ok", "conflict", "session over", "late"]
"""`conflict`: a change was refused. `session over`: the session has ended. `late`: a list of the session with this
number or a higher one was judged before. Only `ok` changed something."""


class Applied(NamedTuple):
    """What a record did. `values` and `failed` are those of `StoreResult`; `changed` are the paths it touched."""

    verdict: Verdict
    values: tuple[Value, ...] = ()
    failed: int = -1
    changed: tuple[str, ...] = ()

    def store_result(self) -> StoreResult:
        """The answer to the node that requested the changes. Where the session is over or a later list overtook them,
        that node cannot go on as if it had been answered."""
        if self.verdict == "ok":
            return StoreResult("ok", self.values)
        return StoreResult("conflict", failed=self.failed) if self.verdict == "conflict" else StoreResult("unknown")


_OVER = Applied("session over")
_LATE = Applied("late")
_NOTHING = Applied("ok")


class _Refused(Exception):
    """A change met a conflict."""


class TreeImage(NamedTuple):
    """A tree at one offset, which stays as it is: what a snapshot is made of."""

    nodes: Mapping[str, Node]
    sessions: tuple[OpenSession, ...]
    ended: tuple[LastSession, ...] = ()

    def records(self) -> Iterator[SnapshotRecord]:
        """Sessions first, then nodes."""
        yield from self.sessions
        yield from self.ended
        for path, node in self.nodes.items():
            yield StoredNode(path, node)


class Tree:
    """The nodes, and the sessions that own some of them. `skeleton` are the nodes that are there from the start."""

    def __init__(self, skeleton: Sequence[str] = ()) -> None:
        self.nodes: dict[str, Node] = {}
        self.sessions: dict[int, OpenSession] = {}
        self._names: dict[str, dict[str, None]] = {}
        """The names below a node, by its path without a trailing slash."""
        self._owned: dict[int, dict[str, None]] = {}
        """The paths of a session's ephemeral nodes."""
        self._newest: dict[int, int] = {}
        """Each broker's newest session, open or not."""
        for path in skeleton:
            self._put(path, Node(b"", 0, 0))

    def __repr__(self) -> str:
        return f"Tree({len(self.nodes)} nodes, {len(self.sessions)} sessions)"

    # reading

    def session_of(self, broker_id: int) -> OpenSession | None:
        """The open session of the broker."""
        return self.sessions.get(self.last_session_of(broker_id))

    def last_session_of(self, broker_id: int) -> int:
        """The number of the broker's newest session, which may have ended: its next registration must name it."""
        return self._newest.get(broker_id, NO_SESSION)

    def children(self, path: str) -> tuple[str, ...] | None:
        """The names below the node, sorted; None if it is missing."""
        if path != "/" and path not in self.nodes:
            return None
        return tuple(sorted(self._names.get(path.rstrip("/"), ())))

    def picture(self) -> TreeImage:
        """The tree as it is now. Copies references only: nodes and sessions never change. Pictures of the same tree are
        equal, also where it was loaded from a snapshot, which does not have the order in which sessions began."""
        ended = [LastSession(*newest) for newest in sorted(self._newest.items()) if newest[1] not in self.sessions]
        return TreeImage(self.nodes.copy(), tuple(self.sessions.values()), tuple(ended))

    # applying

    def apply(self, offset: int, record: Decoded) -> Applied:
        """Judge and apply the record at `offset`. Records that are not changes of the tree do nothing."""
        match record:
            case TreeChanges():
                return self._change(offset, record)
            case SessionOpened():
                return self._open(offset, record)
            case SessionEnded():
                return self._end(record.session)
        return _NOTHING

    def _change(self, offset: int, record: TreeChanges) -> Applied:
        if record.session != NO_SESSION:
            session = self.sessions.get(record.session)
            if session is None:
                return _OVER
            if record.number <= session.number:
                return _LATE
            self.sessions[record.session] = session._replace(number=record.number)
        return self._all_or_none(offset, record.session, record.changes)

    def _open(self, offset: int, record: SessionOpened) -> Applied:
        """A registration that comes twice finds its own session. One that does not know the newest session of its
        broker is refused, also when that has ended: it was sent before, by a process that may be dead now."""
        old = self.session_of(record.broker_id)
        if old is not None and old.incarnation == record.incarnation:
            return Applied("ok", tuple([self.nodes.get(change.path) for change in record.changes]))
        if self.last_session_of(record.broker_id) != record.replaces:
            return Applied("conflict", failed=0)
        before = self._ephemeral_nodes(record.replaces)
        for path in before:
            self._put(path, None)
        opened = self._all_or_none(offset, offset, record.changes)
        if opened.verdict != "ok":
            for path, node in before.items():
                self._put(path, node)
            return opened
        self._forget(record.replaces)
        self.sessions[offset] = OpenSession(offset, record.broker_id, record.incarnation, record.log_dirs)
        self._newest[record.broker_id] = offset
        return opened._replace(changed=tuple(dict.fromkeys((*before, *opened.changed))))

    def _end(self, session: int) -> Applied:
        if session not in self.sessions:
            return _OVER
        paths = tuple(self._ephemeral_nodes(session))
        for path in paths:
            self._put(path, None)
        self._forget(session)
        return Applied("ok", changed=paths)

    def _ephemeral_nodes(self, session: int) -> dict[str, Node]:
        return {path: self.nodes[path] for path in self._owned.get(session, ())}

    def _forget(self, session: int) -> None:
        self.sessions.pop(session, None)
        self._owned.pop(session, None)

    def _all_or_none(self, offset: int, session: int, changes: Sequence[Change]) -> Applied:
        before: dict[str, Node | None] = {}
        values: list[Value] = []
        for index, change in enumerate(changes):
            try:
                values.append(self._apply_one(change, offset, session, before))
            except _Refused:
                for path in reversed(before):
                    self._put(path, before[path])
                return Applied("conflict", failed=index)
        return Applied("ok", tuple(values), changed=tuple(before))

    def _apply_one(self, change: Change, offset: int, session: int, before: dict[str, Node | None]) -> Value:
        """Apply one change; `before` gets the node that was there."""
        path = change.path
        old = self.nodes.get(path)
        match change:
            case Create(_, data, ephemeral):
                if old is not None or not self._has_parent(path) or (ephemeral and session == NO_SESSION):
                    raise _Refused
                new = Node(bytes(data), 0, offset, session if ephemeral else NO_SESSION)
            case Write(_, data, version):
                checked = _at_version(old, version)
                new = Node(bytes(data), checked.version + 1, checked.created, checked.session)
            case Delete(_, version):
                _at_version(old, version)
                if self._names.get(path):
                    raise _Refused
                before.setdefault(path, old)
                self._put(path, None)
                return None
            case Check(_, version):
                _at_version(old, version)
                return None
        before.setdefault(path, old)
        self._put(path, new)
        return new

    def _has_parent(self, path: str) -> bool:
        """Ephemeral nodes have no children, which would outlive them."""
        parent, slash, _ = path.rpartition("/")
        found = self.nodes.get(parent)
        return bool(slash) and (not parent or (found is not None and found.session == NO_SESSION))

    def _put(self, path: str, node: Node | None) -> None:
        """Set or remove the node, without any rule."""
        old = self.nodes.get(path)
        parent, _, name = path.rpartition("/")
        if node is None:
            if old is not None:
                del self.nodes[path]
                names = self._names[parent]
                del names[name]
                if not names:
                    del self._names[parent]
        else:
            self.nodes[path] = node
            if old is None:
                self._names.setdefault(parent, {})[name] = None
        self._set_owner(path, old.session if old else NO_SESSION, node.session if node else NO_SESSION)

    def _set_owner(self, path: str, old: int, new: int) -> None:
        if old == new:
            return
        if old != NO_SESSION:
            self._owned[old].pop(path)
        if new != NO_SESSION:
            self._owned.setdefault(new, {})[path] = None

    # loading a snapshot

    def load(self, record: SnapshotRecord) -> None:
        """Take a record of a snapshot into a tree that has no others."""
        match record:
            case StoredNode(path, node):
                self._put(path, node)
            case OpenSession(session, broker_id):
                self.sessions[session] = record
                self._newest[broker_id] = session
            case LastSession(broker_id, session):
                self._newest[broker_id] = session

    def check_invariants(self) -> None:
        """Whether the indexes hold what the nodes and sessions say. AssertionError if not."""
        names: dict[str, set[str]] = {}
        owned: dict[int, set[str]] = {}
        for path, node in self.nodes.items():
            parent, _, name = path.rpartition("/")
            names.setdefault(parent, set()).add(name)
            if node.session != NO_SESSION:
                owned.setdefault(node.session, set()).add(path)
        assert names == {parent: set(below) for parent, below in self._names.items()}
        assert owned == {session: set(paths) for session, paths in self._owned.items() if paths}
        assert set(owned) <= set(self.sessions), "an ephemeral node outlived its session"
        for session, each in self.sessions.items():
            assert self._newest[each.broker_id] == session, f"broker {each.broker_id} has an older session, too"


def _at_version(node: Node | None, version: int) -> Node:
    if node is None or version not in (ANY_VERSION, node.version):
        raise _Refused
    return node


class Watches:
    """What one node watches of its tree, until its session ends."""

    def __init__(self) -> None:
        self._watched: dict[str, None] = {}
        self._pending: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"Watches({len(self._watched)} paths, {len(self._pending)} pending)"

    def notice(self, changed: Sequence[str]) -> None:
        """Queue an event for each watched path at or above a changed one."""
        for path in self._watched.keys() - self._pending.keys() if changed else ():
            below = "/" if path == "/" else f"{path}/"
            if any(each == path or each.startswith(below) for each in changed):
                self._pending[path] = None

    def events(self) -> tuple[str, ...]:
        """Watched paths that changed since the last call, each once."""
        events = tuple(path for path in self._watched if path in self._pending)
        self._pending.clear()
        return events

    def answer(self, tree: Tree, queries: Sequence[Operation]) -> StoreResult:
        """The answer to a list of queries from the node's own copy."""
        return StoreResult("ok", tuple([self._answer(tree, query) for query in queries]))

    def _answer(self, tree: Tree, query: Operation) -> Value:
        match query:
            case Read(path):
                return tree.nodes.get(path)
            case Children(path):
                return tree.children(path)
            case Watch(path):
                self._watched[path] = None
        return None
