"""The state machine of one shard of the transaction coordinator.

Durable state, changed only by replay: `transactions`, by transactional ID, in two views. Soft state: the requests that
wait for a transaction to complete, and the partitions that still lack their marker.

Markers are sent when the decision is committed, never before: a decision in a log that may still be truncated is not
final. The high watermark therefore triggers them, whatever happened to the request.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.coordinator.contract import Change, Result, Run
from tidelog.coordinator.shard import Shard
from tidelog.coordinator.timeline import Timeline
from tidelog.coordinator.transaction import records
from tidelog.coordinator.transaction.transaction import COMPLETE, Transaction
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition

HOLD_MS = 1_000
"""How long a request may wait for the previous transaction to complete. A client that must retry waits 20 ms or more,
while markers take one."""
RETRY_MS = 50


class HeldRequest(NamedTuple):
    """A request that waits for the previous transaction to complete."""

    token: int
    run: Run
    refuse: Callable[[ErrorCode], Any]


class TransactionHooks(NamedTuple):
    """What the machine starts by itself: timers after loading, and sending markers."""

    on_loaded: "Callable[[TransactionMachine], None]"
    send_markers: "Callable[[TransactionMachine, Transaction, Iterable[TopicPartition]], None]"


class TransactionMachine:
    """The transactional ids of one partition of `__transaction_state`."""

    confirmation: Change | None = Change("", None)
    """A tombstone of the empty ID, which no producer can have. Compaction keeps one at most."""

    def __init__(
        self, shard: Shard, config: BrokerConfig, next_id: Callable[[], int | None], hooks: TransactionHooks
    ) -> None:
        self.shard = shard
        self.config = config
        self._next_id = next_id
        self._hooks = hooks
        self.transactions: Timeline[str, Transaction] = Timeline()
        self.pending_markers: dict[str, set[TopicPartition]] = {}
        """The partitions of each committed decision that have not confirmed their marker."""
        self._prepared: deque[tuple[int, str]] = deque()
        self._held: dict[str, list[HeldRequest]] = {}

    def __repr__(self) -> str:
        return f"<TransactionMachine {len(self.transactions.newest)} ids on {self.shard!r}>"

    # What the rules use.

    @property
    def wall(self) -> int:
        return self.shard.now.wall

    def find(self, transactional_id: str) -> Transaction | None:
        return self.transactions.newest.get(transactional_id)

    def new_producer_id(self) -> int:
        """ApiError COORDINATOR_LOAD_IN_PROGRESS while a block of ids is being fetched."""
        producer_id = self._next_id()
        if producer_id is None:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return producer_id

    def change(self, response: Any, transaction: Transaction) -> Result:
        return Result(response, [Change(transaction.transactional_id, transaction)])

    def hold(self, transactional_id: str, held: HeldRequest) -> None:
        """Run the request when the ending transaction is complete; answer CONCURRENT_TRANSACTIONS if that takes too
        long."""
        self._held.setdefault(transactional_id, []).append(held)
        self.shard.set_timer(("hold", held.token), HOLD_MS, partial(self._hold_timed_out, transactional_id, held))

    def release(self, transactional_id: str, held: HeldRequest, code: ErrorCode) -> Result:
        """Answer the request with the code if it still waits."""
        waiting = self._held.get(transactional_id, [])
        if held in waiting:
            waiting.remove(held)
            self.shard.cancel_timer(("hold", held.token))
            self.shard.reply(held.token, held.refuse(code))
        if not waiting:
            self._held.pop(transactional_id, None)
        return Result()

    def _hold_timed_out(self, transactional_id: str, held: HeldRequest) -> Result:
        return self.release(transactional_id, held, ErrorCode.CONCURRENT_TRANSACTIONS)

    # Markers.

    def markers_written(self, transactional_id: str, partitions: Iterable[TopicPartition], *, retry: bool) -> None:
        """These partitions have their markers, or no longer exist. With `retry` the others are sent theirs again after
        a while."""
        left = self.pending_markers.get(transactional_id)
        if left is None:
            return
        left.difference_update(partitions)
        if not left:
            self.shard.execute(partial(self._complete, transactional_id))
        elif retry:
            self.shard.set_timer(("markers", transactional_id), RETRY_MS, partial(self._send, transactional_id))

    def _begin_markers(self, transactional_id: str) -> None:
        """The committed decision may be an older one of this ID; the present one is committed later."""
        transaction = self.find(transactional_id)
        if transaction is None or not transaction.is_prepared or transactional_id in self.pending_markers:
            return
        if self.transactions.committed(transactional_id) is not transaction:
            return
        self.pending_markers[transactional_id] = set(transaction.partitions)
        self._send(transactional_id)

    def _send(self, transactional_id: str) -> Result:
        transaction, left = self.find(transactional_id), self.pending_markers.get(transactional_id)
        if transaction is not None and transaction.is_prepared and left is not None:
            if left:
                self._hooks.send_markers(self, transaction, sorted(left))
            else:
                self.markers_written(transactional_id, (), retry=False)
        return Result()

    def _complete(self, transactional_id: str) -> Result:
        transaction = self.find(transactional_id)
        if transaction is None or not transaction.is_prepared or self.pending_markers.get(transactional_id) != set():
            return Result()
        completed = Change(transactional_id, transaction.completed(self.wall))
        return Result(changes=[completed], on_done=partial(self._completion_written, transactional_id))

    def _completion_written(self, transactional_id: str, code: ErrorCode) -> Result:
        """Retry if the completion could not be written: the markers are written already."""
        transaction = self.find(transactional_id)
        if code != ErrorCode.NONE and transaction is not None and transaction.is_prepared:
            self.shard.set_timer(("markers", transactional_id), RETRY_MS, partial(self._complete, transactional_id))
        return Result()

    # What the runtime calls.

    def encode(self, change: Change) -> tuple[bytes, bytes | None]:
        return records.encode(change)

    def decode(self, key: bytes, value: bytes | None) -> Change | None:
        return records.decode(key, value)

    def replay(self, offset: int, change: Change) -> None:
        transactional_id, transaction = change
        before = self.find(transactional_id)
        self.transactions.set(transactional_id, transaction, offset)
        if transaction is None:
            return
        if not self.shard.is_loading:
            if before is not None:
                transaction.check_follows(before)
            self._report_state(transaction)
        if transaction.is_prepared:
            self._prepared.append((offset, transactional_id))
        elif transaction.state in COMPLETE:
            self.pending_markers.pop(transactional_id, None)
            self._resume(transactional_id)

    def _report_state(self, transaction: Transaction) -> None:
        self.shard.event(
            "transaction.state",
            level="debug",
            transactional_id=transaction.transactional_id,
            state=transaction.state.value,
            producer_id=transaction.producer_id,
            epoch=transaction.epoch,
            partitions=len(transaction.partitions),
        )

    def _resume(self, transactional_id: str) -> None:
        for held in self._held.pop(transactional_id, ()):
            self.shard.cancel_timer(("hold", held.token))
            self.shard.execute(held.run, held.token, held.refuse)

    def replay_pending(self, offset: int, change: Change, producer_id: int) -> None:
        """No record of this topic is part of a transaction; one that claims to be is applied as it is."""
        del producer_id
        self.replay(offset, change)

    def replay_end(self, offset: int, producer_id: int, *, committed: bool) -> None:
        """No transaction has records here."""

    def commit(self, high_watermark: int) -> None:
        self.transactions.commit(high_watermark)
        while self._prepared and self._prepared[0][0] < high_watermark:
            self._begin_markers(self._prepared.popleft()[1])

    def loaded(self) -> Iterable[Run]:
        self._hooks.on_loaded(self)
        return ()

    def resigned(self) -> None:
        for waiting in self._held.values():
            for held in waiting:
                self.shard.reply(held.token, held.refuse(ErrorCode.NOT_COORDINATOR))
        self._held.clear()

    def check_invariants(self) -> None:
        """Invariants between two inputs; raises AssertionError."""
        for transactional_id, left in self.pending_markers.items():
            transaction = self.find(transactional_id)
            assert transaction is not None, transactional_id
            assert transaction.is_prepared, transaction
            assert left <= transaction.partitions, (transaction, left)
