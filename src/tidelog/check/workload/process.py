"""One process of a workload: a producer and a consumer whose calls and results are recorded."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.check.history.operation import (
    ASSIGN,
    COMMIT,
    CRASH,
    FAIL,
    INFO,
    OK,
    POLL,
    SEND,
    SUBSCRIBE,
    TXN,
    Commit,
    Move,
    Poll,
    Send,
    Value,
)
from tidelog.check.workload.recorder import Recorder, SharedState
from tidelog.check.workload.target import WorkloadTarget
from tidelog.client.results import NO_OFFSET, Assigned, CommittedOffset, ConsumerRecord, Delivery, Event, Lost, Revoked
from tidelog.errors import ApiError, ErrorCode
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Consumer, Producer

DELIVERIES_MS = (3_000, 8_000, 20_000)
"""Delivery timeouts: a producer that gives up early leaves the fate of its records unknown."""

REQUEST_MS = 5_000
ANSWER_MS = 15_000
SESSION_MS = 6_000
TRANSACTION_MS = 10_000
POLL_S = 0.1
ISOLATION = "read_committed"

REFUSED = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_TIMESTAMP,
    }
)
"""Errors after which a broker has certainly not appended the batch; after any other error its fate is unknown."""


class Process:
    """`is_retired` is set once a call got no clear answer: the process must not be used any more."""

    def __init__(
        self,
        target: WorkloadTarget,
        recorder: Recorder,
        shared: SharedState,
        *,
        subscribes: bool,
        delivery_ms: int = DELIVERIES_MS[-1],
        transactional_id: str | None = None,
    ) -> None:
        """A transactional id fences its previous user; ApiError if no broker answers."""
        self.number = shared.new_process()
        self.is_retired = False
        self._subscribes = subscribes
        self._delivery_ms = delivery_ms
        self._target = target
        self._recorder = recorder
        self._shared = shared
        self._rebalanced: set[int] = set()
        self._assigned: list[int] = []
        self._to_commit: dict[int, int] = {}
        self.producer = self._new_producer(transactional_id)
        self.consumer = Consumer(
            target.bootstrap,
            target.group if subscribes else None,
            on_event=self._on_event,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level=ISOLATION,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=SESSION_MS // 6,
            fetch_max_wait_ms=100,
            **{**target.client, "request_timeout_ms": REQUEST_MS, "default_api_timeout_ms": ANSWER_MS},
        )

    def __repr__(self) -> str:
        return f"Process({self.number}, reads {self._assigned or 'nothing'})"

    def _new_producer(self, transactional_id: str | None) -> Producer:
        bootstrap = self._target.bootstrap
        options: dict[str, Any] = {
            **self._target.client,
            "delivery_timeout_ms": self._delivery_ms,
            "request_timeout_ms": min(REQUEST_MS, self._delivery_ms),
            "max_block_ms": self._delivery_ms,
            "linger_ms": 0,
        }
        if transactional_id is None:
            return Producer(bootstrap, **options)
        return TransactionalProducer(bootstrap, transactional_id, transaction_timeout_ms=TRANSACTION_MS, **options)

    def begin(self, f: str, value: Any) -> None:
        self._recorder.invoke(self.number, f, value)

    def end(self, type_: str, f: str, value: Any) -> None:
        rebalanced, self._rebalanced = self._rebalanced, set()
        self._recorder.end(self.number, type_, f, value, rebalanced)
        self.is_retired |= type_ == INFO

    # Writing.

    def send(self, keys: Sequence[int]) -> None:
        """Send a new value to each of these keys at once, and wait until the fate of each is known."""
        sends = self._new_values(keys)
        self.begin(SEND, sends)
        moves, deliveries = self._deliver(sends)
        self._note_acknowledged(moves)
        self.end(_outcome(deliveries), SEND, moves)

    def transact(self, keys: Sequence[int], *, polls: bool, aborts: bool) -> None:
        """Run a transaction that sends, and polls first if `polls`. A commit without an answer leaves the outcome
        unknown; if no commit was requested, the transaction has certainly failed."""
        assert isinstance(self.producer, TransactionalProducer)
        sends = self._new_values(keys)
        before: list[Move] = [Poll({}), Commit({})] if polls else []
        self.begin(TXN, [*before, *sends])
        moves: list[Send] = list(sends)
        outcome = FAIL
        try:
            self.producer.begin()
            if polls:
                before[0] = Poll(self._read(POLL_S))
                before[1] = Commit(self._add_offsets_to_transaction(self.producer))
            moves, deliveries = self._deliver(sends)
            if aborts or _outcome(deliveries) != OK:
                self.producer.abort()
            else:
                outcome = INFO
                self.producer.commit()
                outcome = OK
        except ApiError:
            self._abort_after(outcome, self.producer)
        if outcome == OK:
            self._note_acknowledged(moves)
        self.end(outcome, TXN, [*before, *moves])

    def _add_offsets_to_transaction(self, producer: TransactionalProducer) -> dict[int, int]:
        """Add the group's positions to the transaction, if there is a group; ApiError if the broker refuses."""
        offsets = self._take_offsets_to_commit() if self._subscribes else {}
        partitions: dict[tuple[str, int], int | CommittedOffset] = {
            self._target.partitions[key]: offset for key, offset in offsets.items()
        }
        if partitions:
            producer.send_offsets(partitions, self.consumer)
        return offsets

    def _abort_after(self, outcome: str, producer: TransactionalProducer) -> None:
        """Abort, unless a commit was requested: then an abort must not be."""
        try:
            if outcome == FAIL:
                producer.abort()
        except ApiError:
            self.is_retired = True

    def _new_values(self, keys: Sequence[int]) -> list[Send]:
        return [Send(key, None, self._shared.new_value(key)) for key in keys]

    def _deliver(self, sends: Sequence[Send]) -> tuple[list[Send], list[Delivery | None]]:
        """Send, and return the sends with their offsets and their deliveries, None where there was none."""
        by_ticket: dict[int, Delivery] = {}
        tickets: list[int] = []
        try:
            for move in sends:
                topic, partition = self._target.partitions[move.key]
                tickets.append(self.producer.send(topic, str(move.value).encode(), partition=partition))
            by_ticket = {delivery.ticket: delivery for delivery in self.producer.flush(self._delivery_ms / 1000 + 1)}
        except ApiError:
            tickets += [-1] * (len(sends) - len(tickets))
        deliveries = [by_ticket.get(ticket) for ticket in tickets]
        moves = [move._replace(offset=_offset(each)) for move, each in zip(sends, deliveries, strict=True)]
        return moves, deliveries

    def _note_acknowledged(self, moves: Sequence[Send]) -> None:
        for move in moves:
            if move.offset is not None:
                self._shared.acknowledged(move.key, move.offset)

    # Reading.

    def assign(self, starts: Mapping[int, int]) -> None:
        """Assign these keys; a key that was not assigned before is read from its offset in `starts`."""
        self.begin(ASSIGN, sorted(starts))
        partitions = self._target.partitions
        self.consumer.assign([partitions[key] for key in starts])
        for key in set(starts) - set(self._assigned):
            self.consumer.seek(partitions[key], starts[key])
        self._assigned = sorted(starts)
        self.end(OK, ASSIGN, self._assigned)

    def subscribe(self, topics: Sequence[str]) -> None:
        keys = self._target.keys_of(topics)
        self.begin(SUBSCRIBE, keys)
        self.consumer.subscribe(topics)
        self._assigned = keys
        self.end(OK, SUBSCRIBE, keys)

    def poll(self, timeout_s: float = POLL_S) -> int:
        """Poll, and return the number of records."""
        self.begin(POLL, [Poll({})])
        try:
            found = self._read(timeout_s)
        except ApiError:
            self.end(INFO, POLL, None)  # no records are lost: the consumer returns them before it raises
            return 0
        self.end(OK, POLL, [Poll(found)])
        return sum(map(len, found.values()))

    def _read(self, timeout_s: float) -> dict[int, list[tuple[int, Value]]]:
        found = self._by_key(self.consumer.poll(timeout_s))
        for key, placed in found.items():
            self._to_commit[key] = placed[-1][0] + 1
            self._shared.read(key, placed[-1][0])
        return found

    def commit(self) -> None:
        """Commit the offsets read since the last commit."""
        offsets = self._take_offsets_to_commit()
        if not offsets:
            return
        self.begin(COMMIT, offsets)
        try:
            self.consumer.commit({self._target.partitions[key]: offset for key, offset in offsets.items()})
        except ApiError:
            self.end(INFO, COMMIT, offsets)
        else:
            self.end(OK, COMMIT, offsets)

    def _take_offsets_to_commit(self) -> dict[int, int]:
        """The offsets read since the last commit, of partitions that are still owned."""
        offsets, self._to_commit = self._to_commit, {}
        owned = {self._target.key_of(*partition) for partition in self.consumer.assignment}
        return {key: offset for key, offset in offsets.items() if key in owned}

    # Ending.

    def crash(self) -> None:
        """Crash as if killed: no broker is notified."""
        self.begin(CRASH, None)
        self.abandon()
        self.end(OK, CRASH, None)
        self.is_retired = True

    def abandon(self) -> None:
        self.producer.abandon()
        self.consumer.abandon()

    def leave(self) -> None:
        """Leave the group, so that its rebalance does not wait for this member."""
        self.producer.abandon()
        self.consumer.close()

    def _by_key(self, records: Sequence[ConsumerRecord]) -> dict[int, list[tuple[int, Value]]]:
        found: dict[int, list[tuple[int, Value]]] = {}
        for record in records:
            key = self._target.key_of(record.topic, record.partition)
            found.setdefault(key, []).append((record.offset, _value(record.value)))
        return found

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Assigned | Revoked | Lost):
            keys = {self._target.key_of(*partition) for partition in event.partitions}
            self._rebalanced |= keys
            for key in keys:
                self._to_commit.pop(key, None)


def _offset(delivery: Delivery | None) -> int | None:
    if delivery is None or not delivery.is_acknowledged or delivery.offset == NO_OFFSET:
        return None
    return delivery.offset


def _outcome(deliveries: Sequence[Delivery | None]) -> str:
    if all(delivery is not None and delivery.is_acknowledged for delivery in deliveries):
        return OK
    if all(delivery is not None and delivery.error in REFUSED for delivery in deliveries):
        return FAIL
    return INFO


def _value(raw: bytes | None) -> Value:
    """The value of a record. A workload writes numbers; anything else is recorded as text."""
    text = (raw or b"").decode("utf-8", "backslashreplace")
    return int(text) if text.isdecimal() else text
