"""The cluster's ACLs on this broker, kept by watches of the nodes that announce changes (`controller.acl_tree`).

A notification names a resource, whose ACLs are read again. Only the latest notifications are kept: after a gap, and
with a new session, everything is read.
"""

from collections.abc import Callable, Mapping, Sequence

from tidelog.controller import acl_tree, tree
from tidelog.effects import Effect, Event
from tidelog.node.configs import names_of
from tidelog.ports import Children, Node, Operation, Read, StoreResult, Watch
from tidelog.security.acls import AclIndex, PatternType, ResourcePattern

Submit = Callable[[Sequence[Operation], Callable[[StoreResult], None]], None]
Numbers = Mapping[PatternType, Sequence[int]]
"""The notifications of each kind."""

READS = 500
"""Resources that are read at a time: parsing them is work of the event loop, some milliseconds."""
_KINDS = tuple(acl_tree.CHANGES)
_QUERIES: Sequence[Operation] = (
    *(Watch(acl_tree.CHANGES[kind]) for kind in _KINDS),  # first, so that a change after the lists is noticed
    *(Children(acl_tree.CHANGES[kind]) for kind in _KINDS),
)
_LISTS: Sequence[Operation] = tuple(Children(acl_tree.type_path(*place)) for place in acl_tree.PLACES)


class AclMirror:
    """`submit` sends queries to the store and calls back within the node. `on_change` gets the index of all ACLs once
    they are loaded, and again after each change."""

    def __init__(self, submit: Submit, effects: list[Effect], on_change: Callable[[AclIndex], None]) -> None:
        self._submit = submit
        self._effects = effects
        self._on_change = on_change
        self._index = AclIndex()
        self._seen: dict[PatternType, int] = {}
        """The latest notification of each kind that is reflected here."""
        self._read_all = True
        self._is_reading = self._read_again = False
        self._then: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"<AclMirror {self._index}, seen {list(self._seen.values())}>"

    def start(self, then: Callable[[], None]) -> None:
        """A session began: changes since the last one were missed. `then` is called once everything is read."""
        self._read_all = True
        self._then = then
        self.changed(acl_tree.CHANGES[PatternType.LITERAL])

    def changed(self, path: str) -> None:
        """A store event: something changed at or below `path`."""
        if path not in acl_tree.CHANGES.values():
            return
        if self._is_reading:
            self._read_again = True
        else:
            self._read_changes()

    def _read_changes(self) -> None:
        self._is_reading, self._read_again = True, False
        self._submit(_QUERIES, self._listed)

    def _listed(self, result: StoreResult) -> None:
        if result.outcome != "ok":
            self._read_changes()
            return
        lists = result.values[len(_KINDS) :]
        numbers = {kind: acl_tree.change_numbers(names_of(names)) for kind, names in zip(_KINDS, lists, strict=True)}
        found = {kind: tree.unseen(known, self._seen.get(kind, -1)) for kind, known in numbers.items()}
        self._seen = {kind: each.seen for kind, each in found.items()}
        if self._read_all or any(each.missed for each in found.values()):
            self._read_all = False
            self._submit(_LISTS, lambda result: self._read_everything(result, numbers))
            return
        fresh = [(kind, number) for kind, each in found.items() for number in each.fresh]
        if fresh:
            self._read_notified(fresh, numbers)
        else:
            self._end_reading()

    def _read_everything(self, result: StoreResult, numbers: Numbers) -> None:
        if result.outcome != "ok":
            self._start_over()
            return
        patterns = list(acl_tree.patterns_at(acl_tree.PLACES, result.values))
        self._read(AclIndex(), patterns, numbers)

    def _read_notified(self, fresh: Sequence[tuple[PatternType, int]], numbers: Numbers) -> None:
        def named(result: StoreResult) -> None:
            if result.outcome != "ok":
                self._start_over()
                return
            patterns: dict[ResourcePattern, None] = {}
            for (kind, _), node in zip(fresh, result.values, strict=True):
                pattern = _changed_pattern(kind, node)
                if pattern is None:
                    self._start_over()
                    return
                patterns[pattern] = None
            self._read(self._index, list(patterns), numbers)

        self._submit([Read(acl_tree.change_path(*each)) for each in fresh], named)

    def _start_over(self) -> None:
        self._read_all = True
        self._read_changes()

    def _read(self, index: AclIndex, patterns: Sequence[ResourcePattern], numbers: Numbers) -> None:
        """Read these resources into the index, some at a time; then it counts."""
        part, rest = patterns[:READS], patterns[READS:]

        def take(result: StoreResult) -> None:
            if result.outcome != "ok":
                self._start_over()
                return
            for pattern, value in zip(part, result.values, strict=True):
                self._take(index, pattern, value if isinstance(value, Node) else None)
            self._read(index, rest, numbers)

        if part:
            self._submit([Read(acl_tree.pattern_path(pattern)) for pattern in part], take)
        else:
            self._finish(index, numbers)

    def _take(self, index: AclIndex, pattern: ResourcePattern, node: Node | None) -> None:
        if node is None:
            index.replace(pattern, ())
            return
        try:
            index.replace(pattern, acl_tree.parse_acls(node.data))
        except tree.UNREADABLE as error:
            index.replace(pattern, acl_tree.DENY_ALL)
            fields = {"resource": str(pattern), "reason": f"{type(error).__name__}: {error}"}
            self._effects.append(Event("acls.unreadable", fields, level="warning"))

    def _finish(self, index: AclIndex, numbers: Numbers) -> None:
        self._index = index
        self._seen = {kind: known[-1] if known else self._seen.get(kind, -1) for kind, known in numbers.items()}
        self._on_change(index)
        self._end_reading()

    def _end_reading(self) -> None:
        self._is_reading = False
        if self._read_again:
            self._read_changes()
        elif self._then is not None:
            then, self._then = self._then, None
            then()


def _changed_pattern(kind: PatternType, node: object) -> ResourcePattern | None:
    """What a notification names; None if it is gone, or was written by hand."""
    try:
        return acl_tree.parse_change(kind, node.data) if isinstance(node, Node) else None
    except tree.UNREADABLE:
        return None
