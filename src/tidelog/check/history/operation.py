"""One line of a history, and the pair of lines that forms a call: what a client requested, and how it ended.

A key is a number that stands for a partition; a value is written at most once to its key. Operations that move records
contain micro-operations: `Send`, `Poll` and `Commit`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

INVOKE, OK, FAIL, INFO = "invoke", "ok", "fail", "info"
TYPES = (INVOKE, OK, FAIL, INFO)

SEND, POLL, TXN = "send", "poll", "txn"
MOVES_RECORDS = frozenset({SEND, POLL, TXN})
ASSIGN, SUBSCRIBE, CRASH, DEBUG, COMMIT, COMMITTED = "assign", "subscribe", "crash", "debug", "commit", "committed"

SCAN_BEGINS, SCAN_ENDS = "scan-begins", "scan-ends"
"""Values of a `debug` operation: they enclose the polls of a final scan."""

Value = int | str
"""Text if the value of a record is not one that a workload writes."""


class Send(NamedTuple):
    """`offset` is None while it is unknown."""

    key: int
    offset: int | None
    value: Value


class Poll(NamedTuple):
    """key → (offset, value) in the order in which they were returned; empty before the answer."""

    records: Mapping[int, Sequence[tuple[int, Value]]]


class Commit(NamedTuple):
    """Within a transaction: key → the committed offset of the group."""

    offsets: Mapping[int, int]


Move = Send | Poll | Commit


class Operation(NamedTuple):
    """`line` is the line number in the file; `rebalanced` are the keys that the group assigned or revoked during the
    call."""

    line: int
    number: int
    t_ns: int
    process: int
    type: str
    f: str
    value: Any
    rebalanced: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Header:
    """The first line: the partition of each key, and metadata of the workload."""

    partitions: Sequence[tuple[str, int]]
    about: Mapping[str, Any] = field(default_factory=dict)

    def name(self, key: int) -> str:
        """The name of the partition, for people."""
        if key >= len(self.partitions):
            return f"key {key}"
        topic, partition = self.partitions[key]
        return f"{topic}-{partition}"


@dataclass(frozen=True, slots=True)
class History:
    header: Header
    operations: Sequence[Operation]


class Call(NamedTuple):
    """An invocation and its end; without an end the outcome is unknown."""

    number: int
    invoke: Operation
    end: Operation | None

    @property
    def outcome(self) -> str:
        return INFO if self.end is None else self.end.type

    @property
    def line(self) -> int:
        """The line that is evidence: the end, or the invocation if there is no end."""
        return self.invoke.line if self.end is None else self.end.line

    @property
    def moves(self) -> Sequence[Move]:
        """The micro-operations, as far as they are known."""
        if self.invoke.f not in MOVES_RECORDS:
            return ()
        known = self.end.value if self.end is not None and self.end.value is not None else self.invoke.value
        return known or ()

    @property
    def sends(self) -> list[Send]:
        return [move for move in self.moves if isinstance(move, Send)]

    @property
    def polls(self) -> list[Poll]:
        return [move for move in self.moves if isinstance(move, Poll)]

    @property
    def commits(self) -> dict[int, int]:
        """The group's offsets that the call committed or tried to commit."""
        if self.invoke.f == COMMIT:
            return dict(self.invoke.value)
        return {key: offset for move in self.moves if isinstance(move, Commit) for key, offset in move.offsets.items()}


def calls(operations: Sequence[Operation]) -> list[Call]:
    """The calls, in the order of their invocations."""
    open_calls: dict[int, int] = {}
    found: list[Call] = []
    for operation in operations:
        if operation.type == INVOKE:
            open_calls[operation.process] = len(found)
            found.append(Call(len(found), operation, None))
        else:
            index = open_calls.pop(operation.process)
            found[index] = found[index]._replace(end=operation)
    return found
