"""This node's operations on the tree, in order: queries that wait for earlier changes, and changes on their way.

A change is a record with a number that rises with each one of the session. It is sent to the leader until it is found
in the log as applied here: a record that arrives twice is recognized by its number and does nothing the second time. So
a lost answer leaves no doubt, and a new leader simply gets everything again. If a later number was applied first, the
record will never do anything (`unknown`), and once the session is over, nothing of it will: whatever it did is in this
node's tree by then.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.effects import Store
from tidelog.model import NO_LEADER
from tidelog.node.quorum.local_tree import LocalTree
from tidelog.ports import Query, StoreResult
from tidelog.quorum.records import SessionEnded, SessionOpened, TreeChanges, encode

UNKNOWN = StoreResult("unknown")
NOT_SENT = -1
REQUEST_BYTES = 1_048_576
"""Of the records in one request, if there is more than one."""


@dataclass(slots=True)
class PendingWrite:
    """A change that is not applied here yet. `sent` is the epoch of the leader that got it, or is getting it."""

    token: int
    number: int
    value: bytes
    sent: int = NOT_SENT


Results = list[tuple[int, StoreResult]]
"""(token, result) of operations that are done, in order."""


class TreeWrites:
    """The operations of one node. Its copy of the tree answers queries, once all changes before them are there."""

    def __init__(self, local: LocalTree) -> None:
        self._local = local
        self._waiting: deque[PendingWrite | Store] = deque()
        self._number = 0
        self._opening: PendingWrite | None = None
        self._retry_at: int | None = None
        self._under_way = NOT_SENT
        """The epoch of the request that is not answered."""

    def __repr__(self) -> str:
        return f"TreeWrites({len(self._waiting)} operations, number {self._number})"

    @property
    def retry_at(self) -> int | None:
        """When what failed is sent again (monotonic ms)."""
        return self._retry_at

    @property
    def is_opening(self) -> bool:
        """Whether the beginning of a session, or its end, is on its way."""
        return self._opening is not None

    def open(self, record: SessionOpened) -> None:
        self._opening = PendingWrite(0, 0, encode(record))

    def close(self, record: SessionEnded) -> None:
        """The session ends with this record, which is sent before all that waits."""
        self._opening = PendingWrite(0, 0, encode(record))

    def opened(self) -> None:
        """The record of the session's beginning or end was applied, with either result."""
        self._opening = None

    def submit(self, session: int, store: Store) -> Results:
        """Operations of the session. RecordTooLarge if it would not fit into the log."""
        if not store.operations or isinstance(store.operations[0], Query):
            self._waiting.append(store)
            return self._answered_queries()
        changes = [each for each in store.operations if not isinstance(each, Query)]
        value = encode(TreeChanges(session, self._number + 1, changes))
        self._number += 1
        self._waiting.append(PendingWrite(store.token, self._number, value))
        return []

    def applied(self, number: int, result: StoreResult) -> Results:
        """The session's record with this number was applied, and those before it will never be."""
        results: Results = []
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, PendingWrite):
                if first.number > number:
                    break
                results.append((first.token, result if first.number == number else UNKNOWN))
                self._waiting.popleft()
            else:
                results += self._answered_queries()
        return results

    def _answered_queries(self) -> Results:
        """Queries that no change is before."""
        results: Results = []
        while self._waiting and isinstance(first := self._waiting[0], Store):
            self._waiting.popleft()
            results.append((first.token, self._local.answer(first.operations)))
        return results

    def session_over(self) -> None:
        """The node answers everything that waits with `unknown`."""
        self._waiting.clear()

    # Sending

    def take(self, leader: int, epoch: int, now: int) -> Sequence[bytes]:
        """Records to send to the leader of this epoch now; then `delivered` or `failed` must follow. A request to the
        leader of an earlier epoch is not waited for."""
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
        if self._under_way == epoch or leader == NO_LEADER or self._retry_at is not None:
            return ()
        size, values = 0, list[bytes]()
        for each in (self._opening, *self._waiting):
            if not isinstance(each, PendingWrite) or each.sent == epoch:
                continue
            size += len(each.value)
            if values and size > REQUEST_BYTES:
                break
            each.sent = epoch
            values.append(each.value)
        if values:
            self._under_way = epoch
        return values

    def delivered(self, epoch: int) -> None:
        """The leader of the epoch appended what `take` returned."""
        if epoch == self._under_way:
            self._under_way = NOT_SENT

    def failed(self, epoch: int, retry_at: int) -> None:
        """It may not have arrived: all of it is sent again, in order."""
        if epoch != self._under_way:
            return
        self._under_way = NOT_SENT
        self._retry_at = retry_at
        for each in (self._opening, *self._waiting):
            if isinstance(each, PendingWrite):
                each.sent = NOT_SENT
