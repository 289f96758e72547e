"""The runtime of one coordinator shard: one partition of an internal topic and the state machine that it feeds.

This file keeps the following order:

- An operation runs against the newest state and returns a `Result`: a response, changes, or both.
- Changes become one record batch, which the node appends at once. Later operations queue until the append is done, so
  that each sees the state that the one before left behind.
- Appended changes are replayed, and only replay changes durable state. After a failed append there is nothing to undo
  there; `on_done` restores soft state that the operation had changed.
- The response is sent when the high watermark passes everything written before it, even if the operation itself wrote
  nothing: a response must not show state that may still be lost. Readers see only committed state.
- A final refusal, and a response with `confirm`, also wait until a record is committed that was appended after the
  request arrived. A broker that was replaced without knowing it remembers what was true before, and a client that it
  refuses for good would not ask its successor; but such a broker commits nothing more. A record appended before the
  request proves nothing: the fetch that commits it may have been sent before the successor was elected. At most one
  such record is under way; those that come meanwhile share the next one, so that bad requests do not fill the log.
- When leadership is lost, all waiting requests are answered NOT_COORDINATOR and the machine is dropped; the next leader
  replays the partition. Readers wait until its high watermark has passed what it loaded: a new leader's high watermark
  may be behind what the old one acknowledged (REPLICATION.md, rule 9).
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from tidelog import effects
from tidelog.coordinator.contract import COORDINATOR_CODES, Machine, Refuse, Result, Run
from tidelog.coordinator.timers import Timers
from tidelog.effects import Effect
from tidelog.errors import RETRIABLE, ApiError, CorruptLog, ErrorCode
from tidelog.model import Time, TopicPartition
from tidelog.ports import Buffer
from tidelog.wire import records
from tidelog.wire.records import TRANSACTIONAL, BatchHeader, Record

START = Time(0, 0)


@dataclass(slots=True)
class ShardContext:
    """What the shards of one coordinator share. `effects` is emptied after each input."""

    commit_timeout_ms: int
    compression: int
    now: Time = START
    effects: list[Effect] = field(default_factory=list)
    timers: "Timers[tuple[Shard, Hashable, Run]]" = field(default_factory=Timers)
    appends: "dict[int, Shard]" = field(default_factory=dict)
    tokens: Iterator[int] = field(default_factory=lambda: count(1))


class _Operation(NamedTuple):
    run: Run
    token: int | None
    refuse: Refuse | None


class _PendingResponse(NamedTuple):
    """A response that is sent when the high watermark reaches `end_offset`."""

    end_offset: int
    deadline: int
    operation: _Operation
    respond: Callable[[], Any] | None
    on_done: Callable[[ErrorCode], Result] | None


class _Unconfirmed(NamedTuple):
    """An answer that is given once this broker is known to lead still."""

    operation: _Operation
    answer: Callable[[], None]


class Shard:
    """`high_watermark` and `end_offset` are exclusive ends: of the committed part, and of the replayed part."""

    def __init__(
        self, context: ShardContext, partition: TopicPartition, epoch: int, machine: "Callable[[Shard], Machine]"
    ) -> None:
        self.context = context
        self.partition = partition
        self.epoch = epoch
        self.is_loading = True
        self.is_alive = True
        """False after leadership was lost, for those that still hold a reference to the shard."""
        self.high_watermark = 0
        self.end_offset = 0
        self._loaded_end = 0
        """The end of the log when it was loaded: readers wait until the high watermark reaches it."""
        self._appending: tuple[_Operation, Result] | None = None
        """The operation whose changes are being appended. Those in `_queue` wait, because they must see its state."""
        self._queue: deque[_Operation] = deque()
        self._pending_responses: deque[_PendingResponse] = deque()
        """Each also waits for those before it. Deadlines ascend, so only the first one needs a timer."""
        self._confirming: list[_Unconfirmed] = []
        """Those for which a confirmation is being written."""
        self._unconfirmed: list[_Unconfirmed] = []
        """Those that came later and wait for the next one."""
        self._fired: dict[Hashable, Run] = {}
        """Timers that are due and can still be cancelled, because their operation has not run."""
        self._once_loaded: list[Run] = []
        self.machine = machine(self)

    def __repr__(self) -> str:
        state = "loading" if self.is_loading else "active" if self.is_alive else "resigned"
        return f"<Shard {self.partition} epoch {self.epoch} {state}, {self.high_watermark} of {self.end_offset}>"

    # What a machine may use.

    @property
    def now(self) -> Time:
        return self.context.now

    def reply(self, token: int, response: Any) -> None:
        """Answer a request that the machine kept waiting."""
        self.context.effects.append(effects.Reply(token, response))

    def event(self, kind: str, *, level: str = "info", **fields: Any) -> None:
        self.context.effects.append(effects.Event(kind, fields, level))

    def set_timer(self, key: Hashable, delay_ms: int, run: Run) -> None:
        """Run the operation after the delay. Replaces the timer that was set for the key."""
        self._fired.pop(key, None)
        self.context.timers.set(self.partition.partition, key, self.now.mono + delay_ms, (self, key, run))

    def cancel_timer(self, key: Hashable) -> None:
        self._fired.pop(key, None)
        self.context.timers.cancel(self.partition.partition, key)

    def has_timer(self, key: Hashable) -> bool:
        return self.context.timers.deadline(self.partition.partition, key) is not None

    def fired(self, key: Hashable, run: Run) -> None:
        """The timer is due. It can still be cancelled until `run_fired` reaches it, which may be behind an append."""
        self._fired[key] = run

    def run_fired(self, key: Hashable, run: Run) -> None:
        self.execute(lambda: run() if self._fired.pop(key, None) is run else Result())

    # Operations.

    def execute(self, run: Run, token: int | None = None, refuse: Refuse | None = None) -> None:
        """Run a writing operation; `refuse` makes the response to the token from an error code."""
        operation = _Operation(run, token, refuse)
        if self.is_loading:
            self._refuse(operation, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        elif self._appending is not None:
            self._queue.append(operation)
        else:
            self._run(operation)

    def execute_once_loaded(self, run: Run) -> None:
        """Run an operation that no request started."""
        if self.is_loading:
            self._once_loaded.append(run)
        else:
            self.execute(run)

    def read(self, respond: Callable[[], Any], token: int, refuse: Refuse) -> None:
        """Answer from committed state."""
        operation = _Operation(Result, token, refuse)
        if self.is_loading:
            self._refuse(operation, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        elif self.high_watermark < self._loaded_end:
            self._wait(_PendingResponse(self._loaded_end, self._deadline(), operation, respond, None))
        else:
            self.reply(token, respond())

    def _run(self, operation: _Operation) -> None:
        """Run it against the newest state. A refusal after which the client may ask again is answered at once."""
        try:
            result = operation.run()
        except ApiError as error:
            refuse = partial(self._refuse, operation, error.code)
            if operation.token is None or error.code in RETRIABLE or self.machine.confirmation is None:
                refuse()
            else:
                self._when_confirmed(operation, refuse)
            return
        if result.confirm:
            assert operation.token is not None
            assert not result.changes
            self._when_confirmed(operation, partial(self.reply, operation.token, result.response))
        elif result.changes:
            self._append(operation, result)
        else:
            self._respond_when_committed(operation, result)

    def _respond_when_committed(self, operation: _Operation, result: Result) -> None:
        """Everything that the operation wrote is in the log; its response waits for the high watermark."""
        if result.response is None and result.on_done is None:
            return
        if self._pending_responses or self.end_offset > self.high_watermark:
            respond = None if result.response is None else lambda: result.response
            self._wait(_PendingResponse(self.end_offset, self._deadline(), operation, respond, result.on_done))
            return
        if result.response is not None and operation.token is not None:
            self.reply(operation.token, result.response)
        self._call_on_done(result.on_done, ErrorCode.NONE)

    def _wait(self, waiting: _PendingResponse) -> None:
        self._pending_responses.append(waiting)
        if len(self._pending_responses) == 1:
            self._set_commit_timer()

    def _deadline(self) -> int:
        return self.now.mono + self.context.commit_timeout_ms

    def _respond(self, waiting: _PendingResponse) -> None:
        if waiting.respond is not None and waiting.operation.token is not None:
            self.reply(waiting.operation.token, waiting.respond())
        self._call_on_done(waiting.on_done, ErrorCode.NONE)

    def _call_on_done(self, on_done: "Callable[[ErrorCode], Result] | None", code: ErrorCode) -> None:
        if on_done is not None:
            self.execute(lambda: on_done(code))

    def _refuse(self, operation: _Operation, code: ErrorCode) -> None:
        if operation.token is not None and operation.refuse is not None:
            self.reply(operation.token, operation.refuse(COORDINATOR_CODES.get(code, code)))

    # Confirmations.

    def _when_confirmed(self, operation: _Operation, answer: Callable[[], None]) -> None:
        self._unconfirmed.append(_Unconfirmed(operation, answer))
        self._confirm()

    def _confirm(self) -> None:
        if self._unconfirmed and not self._confirming:
            self._confirming, self._unconfirmed = self._unconfirmed, []
            self.execute(self._confirmation)

    def _confirmation(self) -> Result:
        assert self.machine.confirmation is not None
        return Result(changes=[self.machine.confirmation], on_done=self._confirmed)

    def _confirmed(self, code: ErrorCode) -> Result:
        if code != ErrorCode.NONE:
            self._refuse_unconfirmed(code)
            return Result()
        confirmed, self._confirming = self._confirming, []
        for _, answer in confirmed:
            answer()
        self._confirm()
        return Result()

    def _refuse_unconfirmed(self, code: ErrorCode) -> None:
        """Also those that came later: they would wait as long again."""
        refused, self._confirming, self._unconfirmed = [*self._confirming, *self._unconfirmed], [], []
        for operation, _ in refused:
            self._refuse(operation, code)

    # The log's side.

    def _append(self, operation: _Operation, result: Result) -> None:
        # Encode before the shard waits for the append: an encoding error must not block the queue.
        batch = self._batch(result)
        token = next(self.context.tokens)
        self._appending = operation, result
        self.context.appends[token] = self
        self.context.effects.append(effects.Append(token, self.partition, batch))

    def _batch(self, result: Result) -> bytes:
        timestamp, transaction = self.now.wall, result.transaction
        encoded = (self.machine.encode(change) for change in result.changes)
        content = [Record(timestamp=timestamp, key=key, value=value) for key, value in encoded]
        if transaction is None:
            return records.build(content, compression=self.context.compression)
        return records.build(
            content,
            compression=self.context.compression,
            attributes=TRANSACTIONAL,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
        )

    def appended(self, base_offset: int, last_offset: int) -> None:
        assert self._appending is not None
        operation, result = self._appending
        self._replay(base_offset, last_offset, result)
        self.end_offset = last_offset + 1
        self._appending = None
        self._respond_when_committed(operation, result)
        self._run_queue()

    def _replay(self, base_offset: int, last_offset: int, result: Result) -> None:
        assert last_offset - base_offset + 1 == len(result.changes)
        for offset, change in enumerate(result.changes, base_offset):
            if result.transaction is None:
                self.machine.replay(offset, change)
            else:
                self.machine.replay_pending(offset, change, result.transaction.producer_id)

    def transaction_ended(self, offset: int, producer_id: int, *, committed: bool) -> None:
        """A marker was appended. What this coordinator has not appended yet comes after it. While the shard is loading,
        the marker is loaded with the rest of the log."""
        if self.is_loading:
            return
        self.machine.replay_end(offset, producer_id, committed=committed)
        self.end_offset = max(self.end_offset, offset + 1)

    def append_failed(self, code: ErrorCode) -> None:
        assert self._appending is not None
        operation, result = self._appending
        self._appending = None
        self._fail(operation, result.response is not None, result.on_done, code)
        self._run_queue()

    def _fail(
        self,
        operation: _Operation,
        has_response: bool,
        on_done: Callable[[ErrorCode], Result] | None,
        code: ErrorCode,
    ) -> None:
        if has_response:
            self._refuse(operation, code)
        self._call_on_done(on_done, COORDINATOR_CODES.get(code, code))

    def _run_queue(self) -> None:
        while self._queue and self._appending is None:
            self._run(self._queue.popleft())

    def committed(self, high_watermark: int) -> None:
        """The high watermark moved. A lower one than before changes nothing."""
        if high_watermark <= self.high_watermark:
            return
        self.high_watermark = high_watermark
        if self.is_loading:
            return
        self.machine.commit(high_watermark)
        while self._pending_responses and self._pending_responses[0].end_offset <= high_watermark:
            self._respond(self._pending_responses.popleft())
        self._set_commit_timer()

    def _set_commit_timer(self) -> None:
        """If no response waits, the timer is left to expire: postponing a timer later is cheaper than setting a new
        one."""
        if self._pending_responses:
            delay_ms = max(self._pending_responses[0].deadline - self.now.mono, 0)
            self.set_timer("commit", delay_ms, self._commit_timed_out)

    def _commit_timed_out(self) -> Result:
        """The append may still be committed, so nothing is undone: only the client stops waiting."""
        while self._pending_responses and self._pending_responses[0].deadline <= self.now.mono:
            waiting = self._pending_responses.popleft()
            self._fail(waiting.operation, waiting.respond is not None, waiting.on_done, ErrorCode.REQUEST_TIMED_OUT)
        self._set_commit_timer()
        return Result()

    # Leadership.

    def load(self, content: Buffer) -> None:
        """Replay whole batches. Unreadable records are reported and skipped, as are records of unknown kinds: a shard
        that never loads would make all of its groups unavailable."""
        for batch in records.batches(content):
            try:
                self._load_batch(content, batch)
            except ApiError as error:
                self._report_unreadable(batch.base_offset, error)
            self.end_offset = batch.next_offset

    def _load_batch(self, content: Buffer, batch: BatchHeader) -> None:
        for record in records.records(content, batch):
            if batch.is_control:
                marker = records.read_marker(record)
                if marker is not None:
                    self.machine.replay_end(record.offset, batch.producer_id, committed=marker.committed)
                continue
            try:
                change = None if record.key is None else self.machine.decode(record.key, record.value)
            except CorruptLog as error:
                self._report_unreadable(record.offset, error)
                continue
            if change is not None and batch.is_transactional:
                self.machine.replay_pending(record.offset, change, batch.producer_id)
            elif change is not None:
                self.machine.replay(record.offset, change)

    def _report_unreadable(self, offset: int, error: Exception) -> None:
        where = str(self.partition)
        self.event("coordinator.unreadable", level="error", partition=where, offset=offset, reason=str(error))

    def loaded(self) -> None:
        self.is_loading = False
        self._loaded_end = self.end_offset
        self.machine.commit(self.high_watermark)
        for run in [*self.machine.loaded(), *self._once_loaded]:
            self.execute(run)
        self._once_loaded.clear()

    def resigned(self) -> None:
        """Drop everything; the caller removes the shard."""
        self.is_alive = False
        # `on_done` is not called: it would restore state of a machine that is dropped.
        pending = [] if self._appending is None else [self._appending]
        for operation, result in pending:
            self._fail(operation, result.response is not None, None, ErrorCode.NOT_COORDINATOR)
        for operation in self._queue:
            self._refuse(operation, ErrorCode.NOT_COORDINATOR)
        self._refuse_unconfirmed(ErrorCode.NOT_COORDINATOR)
        for waiting in self._pending_responses:
            self._fail(waiting.operation, waiting.respond is not None, None, ErrorCode.NOT_COORDINATOR)
        self.machine.resigned()
        self.context.timers.cancel_group(self.partition.partition)
