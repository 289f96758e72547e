"""Commands against the metadata tree: one at a time, each checked against the controller's epoch.

A command is a generator that yields lists of store operations, either all queries or all changes, receives their
values, and returns the answer to its request. So it reads top-down, and sees what every command before it committed. A
long one yields `PAUSE` in between: the broker handles its other inputs first, and the command continues when the
controller is woken, in the same term or not at all.

Every list of changes is sent with a check of `/controller_epoch` in front. The outcomes: *ok* continues; a conflict
there means that another controller leads (`deposed`); any other conflict means that the image is stale (`stale`): it is
read again and the command restarts. After *unknown* the nodes are read again: this controller is the only writer, so
their contents show whether the changes happened. If not, they are sent again.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tidelog.controller import tree
from tidelog.ports import Change, Check, Create, Delete, Node, Operation, Query, Read, StoreResult, Write

T = TypeVar("T")
Steps = Generator[Sequence[Operation], Sequence[Any], T]

Group = list[Change]
"""Changes that must be in one multi, because they take effect together."""

CHUNK = 500
"""The most changes in one multi: ZooKeeper limits the size of a message (jute.maxbuffer)."""
READS = 1000
"""Queries in one list: no message grows without bound, and what comes back is read within a turn."""
PAUSE: Sequence[Operation] = []
"""Yielded instead of operations; recognized by identity, because any list may be empty."""
SLICE = 200
"""The number of items (partitions, topics) that a command computes between two pauses, and of commands between two
pauses: about ten milliseconds."""
MAX_OVERTAKING = 4
"""The most urgent commands in a row while one waits in the queue."""
RETRY_MS = 100
MAX_ATTEMPTS = 5


@dataclass(slots=True)
class Command:
    """`start` creates the generator, again after each conflict; `token` is that of the request to answer, if any."""

    name: str
    start: Callable[[], Steps[Any]]
    token: int | None = None
    attempts: int = 0


class Journal:
    """The commands of one term. The owner submits to the store what `take` returns, and passes each result to `result`.

    `finished` lists commands with what they returned, or with None after too many conflicts. `deposed` and `stale` are
    the outcome of the last conflict, for the owner to act on.
    """

    def __init__(self, epoch_version: int) -> None:
        self.epoch_version = epoch_version
        self.first: deque[Command] = deque()
        """Before all others: reactions to the store's events, the reading of a stale image, and the command that
        restarts after a conflict, which must keep its position."""
        self.urgent: deque[Command] = deque()
        """Before those in `queue`: with a slow store, replication must not wait for the requests of operators."""
        self.queue: deque[Command] = deque()
        self._overtaken = 0
        """How many urgent commands in a row went before one that waits in the queue."""
        self.current: Command | None = None
        self.steps: Steps[Any] | None = None
        self.unsent: Sequence[Operation] | None = None
        """Operations to submit next. At most one of `unsent` and `sent` is set: the store has one request at a time."""
        self.sent: Sequence[Operation] | None = None
        """Operations submitted to the store, whose result is outstanding."""
        self.unconfirmed: Sequence[Change] | None = None
        """Changes whose outcome is unknown, while their nodes are read to find out."""
        self.retry_at: int | None = None
        self.is_paused = False
        self._started = 0
        """How many commands were started since the last pause."""
        self.finished: list[tuple[Command, Any]] = []
        self.deposed = False
        self.stale = False

    def __repr__(self) -> str:
        current = self.current.name if self.current else "idle"
        return f"Journal({current}, {len(self.first) + len(self.urgent) + len(self.queue)} queued)"

    def submit(self, command: Command, *, first: bool = False, urgent: bool = False) -> None:
        if first:
            self.first.appendleft(command)
        else:
            (self.urgent if urgent else self.queue).append(command)

    def has(self, name: str) -> bool:
        return any(command.name == name for command in (*self.first, *self.urgent, *self.queue))

    def take(self) -> Sequence[Operation] | None:
        """The next operations to submit to the store; None while it works, until a retry, or if nothing is queued."""
        while (
            self.sent is None
            and self.unsent is None
            and not self.is_paused
            and (self.first or self.urgent or self.queue)
        ):
            self._started += 1
            # Many commands that need no store may wait behind one that did: let other inputs come first.
            if self._started > SLICE:
                self.is_paused = True
                return None
            self.current = self._next_queue().popleft()
            self.steps = self.current.start()
            self._advance(None)
        if self.sent is not None or self.unsent is None or self.retry_at is not None:
            return None
        self.sent, self.unsent = self.unsent, None
        return self.sent

    def _next_queue(self) -> deque[Command]:
        """The queue of the next command. ISRs that change all the time, as with a slow store, must not block an
        operator's command forever."""
        if self.first:
            return self.first
        if self.urgent and (not self.queue or self._overtaken < MAX_OVERTAKING):
            self._overtaken = self._overtaken + 1 if self.queue else 0
            return self.urgent
        self._overtaken = 0
        return self.queue

    def wake(self, now: int) -> None:
        if self.retry_at is not None and now >= self.retry_at:
            self.retry_at = None
        if self.is_paused:
            self.is_paused = False
            self._started = 0
            if self.steps is not None:
                self._advance(())

    def result(self, result: StoreResult, now: int) -> None:
        sent, self.sent = self.sent, None
        assert sent is not None, "a result without a request"
        if self.unconfirmed is not None:
            self._resolve(self.unconfirmed, result, now)
        elif isinstance(sent[0], Query):
            self._queried(sent, result, now)
        else:
            self._changed(sent, result, now)

    def _queried(self, sent: Sequence[Operation], result: StoreResult, now: int) -> None:
        if result.outcome == "ok":
            self._advance(result.values)
        else:
            self.unsent, self.retry_at = sent, now + RETRY_MS

    def _changed(self, sent: Sequence[Operation], result: StoreResult, now: int) -> None:
        if result.outcome == "ok":
            self._advance(result.values[1:])
        elif result.outcome == "unknown":
            self.unconfirmed = [operation for operation in sent[1:] if not isinstance(operation, Query)]
            self._read_again(now + RETRY_MS)
        else:
            self._conflict(result.failed)

    def _conflict(self, failed: int) -> None:
        self.steps = None
        self.deposed = failed == 0  # the check of `/controller_epoch` is the first operation
        self.stale = not self.deposed
        command, self.current = self.current, None
        assert command is not None
        command.attempts += 1
        if command.attempts < MAX_ATTEMPTS:
            self.first.appendleft(command)
        else:
            self.finished.append((command, None))

    def _read_again(self, at: int) -> None:
        assert self.unconfirmed is not None
        self.unsent = [Read(tree.CONTROLLER_EPOCH), *(Read(operation.path) for operation in self.unconfirmed)]
        self.retry_at = at

    def _resolve(self, unconfirmed: Sequence[Change], result: StoreResult, now: int) -> None:
        if result.outcome != "ok":
            self._read_again(now + RETRY_MS)
            return
        self.unconfirmed = None
        epoch, *nodes = result.values
        # A multi takes effect as a whole, so one node shows it for all changes.
        if took_effect(unconfirmed[0], nodes[0]):
            self._advance([_value(operation, node) for operation, node in zip(unconfirmed, nodes, strict=True)])
        elif isinstance(epoch, Node) and epoch.version == self.epoch_version:
            self.unsent = self._checked(unconfirmed)
        else:
            self._conflict(0)

    def _checked(self, changes: Sequence[Operation]) -> Sequence[Operation]:
        return [Check(tree.CONTROLLER_EPOCH, self.epoch_version), *changes]

    def _advance(self, values: Sequence[Any] | None) -> None:
        """Run the command to its next operations, or to its end."""
        assert self.steps is not None
        assert self.current is not None
        try:
            operations = self.steps.send(values) if values is not None else next(self.steps)
            while not operations and operations is not PAUSE:
                operations = self.steps.send(())
        except StopIteration as end:
            self.finished.append((self.current, end.value))
            self.current = self.steps = None
            return
        if operations is PAUSE:
            self.is_paused = True
            return
        self.unsent = operations if isinstance(operations[0], Query) else self._checked(operations)


def took_effect(change: Change, node: Any) -> bool:
    """Whether the first of a list of changes, and so all of them, took effect, given its node as it is now."""
    match change:
        case Create(_, data):
            return node is not None and node.data == data
        case Write(_, data, version):
            return node is not None and node.data == data and node.version == version + 1
        case Delete():
            return node is None
    return False


def _value(change: Change, node: Any) -> Any:
    return node if isinstance(change, Create | Write) else None


class Slices:
    """`yield from slices.count(n)` pauses the command whenever it has computed a slice of items."""

    def __init__(self) -> None:
        self._since = 0

    def count(self, count: int = 1) -> Steps[None]:
        self._since += count
        if self._since >= SLICE:
            self._since = 0
            yield PAUSE


def chunks(items: Sequence[T], size: int = CHUNK) -> Sequence[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def read_all(queries: Sequence[Operation]) -> Steps[list[Any]]:
    values: list[Any] = []
    for chunk in chunks(queries, READS):
        values += yield chunk
    return values


def read_each(items: Sequence[T], query: Callable[[T], Operation], take: Callable[[T, Any], None]) -> Steps[None]:
    """Query for each item, and take what was found, in the turn in which it comes."""
    for chunk in chunks(items, READS):
        values = yield [query(item) for item in chunk]
        for item, value in zip(chunk, values, strict=True):
            take(item, value)


def pack(groups: Iterable[Group]) -> Iterator[list[Operation]]:
    """The groups in order, as many to one multi as `CHUNK` allows; a group is never split, even if it is larger."""
    packed: list[Operation] = []
    for group in groups:
        if packed and len(packed) + len(group) > CHUNK:
            yield packed
            packed = []
        packed.extend(group)
    if packed:
        yield packed


def submit(groups: Iterable[Group]) -> Steps[None]:
    """The steps that write all groups, several to one multi. Each group is taken when its multi is due."""
    for operations in pack(groups):
        _ = yield operations
