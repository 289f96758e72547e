"""The cluster's ACLs on this broker, kept by watches of the nodes that announce changes (`controller.acl_tree`)."""

from collections.abc import Callable, Sequence

from tidelog.controller import acl_tree, tree
from tidelog.effects import Effect, Event
from tidelog.node.mirror import Mirror, StartOver, Steps, Submit, asked
from tidelog.ports import Children, Node, Operation
from tidelog.security.acls import AclIndex, PatternType, ResourcePattern

_KINDS = {path: kind for kind, path in acl_tree.CHANGES.items()}
_LISTS: Sequence[Operation] = tuple(Children(acl_tree.type_path(*place)) for place in acl_tree.PLACES)


class AclMirror(Mirror[ResourcePattern]):
    """`on_change` gets the index of all ACLs once they are loaded, and again after each change."""

    watched = changes = tuple(_KINDS)

    def __init__(self, submit: Submit, effects: list[Effect], on_change: Callable[[AclIndex], None]) -> None:
        super().__init__(submit)
        self._effects = effects
        self._on_change = on_change
        self._index = AclIndex()
        self._next: AclIndex | None = None
        """The index that counts once everything is read; None if nothing is."""

    def __repr__(self) -> str:
        return f"<AclMirror {self._index}, seen {list(self._seen.values())}>"

    def _change_numbers(self, names: Sequence[str]) -> list[int]:
        return acl_tree.change_numbers(names)

    def _change_path(self, changes: str, number: int) -> str:
        return acl_tree.change_path(_KINDS[changes], number)

    def _wanted(self, named: Sequence[tuple[str, bytes]] | None) -> Steps[Sequence[ResourcePattern]]:
        if named is None:
            lists = yield from asked(_LISTS)
            self._next = AclIndex()
            return list(acl_tree.patterns_at(acl_tree.PLACES, lists))
        patterns = dict.fromkeys(_changed_pattern(_KINDS[path], data) for path, data in named)
        self._next = self._index if patterns else None
        return list(patterns)

    def _path(self, name: ResourcePattern) -> str:
        return acl_tree.pattern_path(name)

    def _take(self, name: ResourcePattern, node: Node | None) -> None:
        assert self._next is not None
        if node is None:
            self._next.replace(name, ())
            return
        try:
            self._next.replace(name, acl_tree.parse_acls(node.data))
        except tree.UNREADABLE as error:
            self._next.replace(name, acl_tree.DENY_ALL)
            fields = {"resource": str(name), "reason": f"{type(error).__name__}: {error}"}
            self._effects.append(Event("acls.unreadable", fields, level="warning"))

    def _finished(self) -> None:
        if self._next is not None:
            self._index, self._next = self._next, None
            self._on_change(self._index)


def _changed_pattern(kind: PatternType, data: bytes) -> ResourcePattern:
    """What a notification names; StartOver if it was written by hand."""
    try:
        return acl_tree.parse_change(kind, data)
    except tree.UNREADABLE:
        raise StartOver from None
