"""What the mirrors of parts of the metadata tree have in common: when they read, and what.

A watch fires when anything changes below a part of the tree. What changed follows from the lists of names there, and
from notifications, nodes that name what changed. Only the latest notifications are kept: after a gap, and with a new
session, everything is read.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from tidelog.controller import tree
from tidelog.ports import Children, Node, Operation, Read, StoreResult, Watch

Submit = Callable[[Sequence[Operation], Callable[[StoreResult], None]], None]
Name = TypeVar("Name")
T = TypeVar("T")
Steps = Generator[Sequence[Operation], StoreResult, T]
"""Queries, each of which gets its result."""

READS = 500
"""Nodes that are read at a time: parsing them is work of the event loop, some milliseconds."""


class StartOver(Exception):
    """What was read contradicts itself: everything is read again."""


class Mirror(ABC, Generic[Name]):
    """`submit` sends queries to the store and calls back within the node. The paths: `watched` are watched, `changes`
    have the notifications, `lists` are others whose children are listed."""

    watched: Sequence[str]
    changes: Sequence[str]
    lists: Sequence[str] = ()

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self._seen: dict[str, int] = {}
        """The latest notification of each path in `changes` that is reflected here."""
        self._read_all = True
        self._is_reading = self._read_again = False
        self._then: Callable[[], None] | None = None

    def _change_numbers(self, names: Sequence[str]) -> list[int]:
        """The numbers of notifications, ascending."""
        return tree.change_numbers(names)

    @abstractmethod
    def _change_path(self, changes: str, number: int) -> str:
        """The path of the notification with that number."""

    def _listed(self, lists: Sequence[Sequence[str]]) -> None:
        """Take the names in `lists`, before anything else is read."""

    @abstractmethod
    def _wanted(self, named: Sequence[tuple[str, bytes]] | None) -> Steps[Sequence[Name]]:
        """What to read: everything for None, else what these notifications name, each a path in `changes` and a
        content. May raise StartOver."""

    @abstractmethod
    def _path(self, name: Name) -> str: ...

    @abstractmethod
    def _take(self, name: Name, node: Node | None) -> None:
        """What was read; None if there is no such node."""

    def _finished(self) -> None:
        """Everything that was wanted is read."""

    def start(self, then: Callable[[], None] | None = None) -> None:
        """A session began: changes since the last one were missed. `then` is called once everything is read."""
        self._read_all = True
        self._then = then
        self._read()

    def changed(self, path: str) -> None:
        """A store event: something changed at or below `path`."""
        if path in self.watched:
            self._read()

    def _read(self) -> None:
        if self._is_reading:
            self._read_again = True
        else:
            self._is_reading = True
            self._run(self._read_changes())

    def _run(self, steps: Steps[None], result: StoreResult | None = None) -> None:
        """Send the next queries; `result` is that of the last ones."""
        try:
            queries = next(steps) if result is None else steps.send(result)
        except StopIteration:
            return
        self._submit(queries, partial(self._run, steps))

    def _read_changes(self) -> Steps[None]:
        self._read_again = True
        while self._read_again:
            lists = yield from self._lists()
            numbers = {path: self._change_numbers(names) for path, names in zip(self.changes, lists, strict=False)}
            found = {path: tree.unseen(known, self._seen.get(path, -1)) for path, known in numbers.items()}
            self._seen = {path: each.seen for path, each in found.items()}
            is_whole = self._read_all or any(each.missed for each in found.values())
            self._read_all = False
            self._listed(lists[len(self.changes) :])
            try:
                fresh = [(path, number) for path, each in found.items() for number in each.fresh]
                named = None if is_whole else (yield from self._named(fresh))
                wanted = yield from self._wanted(named)
            except StartOver:
                self._read_all = self._read_again = True
                continue
            yield from self._read_nodes(wanted)
            self._seen = {path: known[-1] if known else -1 for path, known in numbers.items()}
            self._finished()
        self._is_reading = False
        then, self._then = self._then, None
        if then is not None:
            then()

    def _lists(self) -> Steps[Sequence[Sequence[str]]]:
        """The names of all notifications, and those in `lists`."""
        watches = [Watch(path) for path in self.watched]  # first, so that a change after the lists is noticed
        queries: list[Operation] = [*watches, *(Children(path) for path in (*self.changes, *self.lists))]
        while True:
            self._read_again = False
            result = yield queries
            if result.outcome == "ok":
                return [names_of(value) for value in result.values[len(watches) :]]

    def _named(self, fresh: Sequence[tuple[str, int]]) -> Steps[Sequence[tuple[str, bytes]]]:
        """The content of these notifications."""
        if not fresh:
            return []
        values = yield from asked([Read(self._change_path(*each)) for each in fresh])
        nodes = [value for value in values if isinstance(value, Node)]
        if len(nodes) < len(values):
            raise StartOver  # a notification went while we looked
        return [(path, node.data) for (path, _), node in zip(fresh, nodes, strict=True)]

    def _read_nodes(self, names: Sequence[Name]) -> Steps[None]:
        """Read these nodes, some at a time."""
        for begin in range(0, len(names), READS):
            part = names[begin : begin + READS]
            reads, outcome = [Read(self._path(name)) for name in part], "unknown"
            while outcome != "ok":
                result = yield reads
                outcome = result.outcome
            for name, value in zip(part, result.values, strict=True):
                self._take(name, value if isinstance(value, Node) else None)


def asked(queries: Sequence[Operation]) -> Steps[Sequence[Any]]:
    """The values of these queries."""
    result = yield queries
    if result.outcome != "ok":
        raise StartOver
    return result.values


def names_of(value: Any) -> Sequence[str]:
    return [] if value is None else [str(name) for name in value]
