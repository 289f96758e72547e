"""The transactional producer: records and group offsets that are committed together or not at all (KIP-98, 360, 447,
890).

    init_transactions · (begin · send … · send_offsets … · commit | abort | hand_over · init_transactions) …

Rules: if a record cannot be delivered, its transaction can only be aborted. In a cluster with transaction version 2,
the first write adds a partition to the transaction and every end returns the next epoch. In older clusters each
partition is added first, and after a failure a new InitProducerId raises the epoch. A fenced producer cannot do
anything more.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from tidelog.client.backoff import Entropy
from tidelog.client.coordinator import TRANSACTION, CoordinatorFinder, CoordinatorRequests
from tidelog.client.options import Address, ProducerOptions
from tidelog.client.producer import Producer
from tidelog.client.results import CommittedOffset, Delivery, Done, GroupPlace, code_of
from tidelog.client.sending import transaction_requests
from tidelog.client.sending.batch import EncodedRecords, ProducerBatch
from tidelog.client.sending.sequences import Sequences
from tidelog.effects import Effect
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import Time, TopicPartition, earliest
from tidelog.wire.messages.records.produce import PartitionProduceResponse
from tidelog.wire.messages.transactions.transaction_requests import TxnOffsetCommitRequest
from tidelog.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

VERSION_2 = 2
NEWEST = 32767


class Versions(NamedTuple):
    """The newest versions of requests that a producer uses."""

    produce: int = NEWEST
    add: int = 3
    end: int = NEWEST
    offsets: int = NEWEST


CURRENT = Versions()
OLDER = Versions(produce=11, end=4, offsets=4)
"""The versions in which partitions must be added first."""

FATAL_ERRORS = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Errors after which a producer cannot continue."""


class Phase(Enum):
    """FAILED: the transaction can only be aborted. ENDING: requests in flight finish first."""

    NEW = "new"
    READY = "ready"
    OPEN = "open"
    FAILED = "failed"
    ENDING = "ending"


class TransactionalProducer(Producer):
    """Inputs and effects as in `Client`. Calls that need a response return a ticket, whose `Done` comes with
    `take_results`. ApiError INVALID_TXN_STATE if a call does not fit the phase, or the fatal error if the producer was
    fenced."""

    def __init__(self, bootstrap: Sequence[Address], options: ProducerOptions, entropy: Entropy) -> None:
        super().__init__(bootstrap, options, entropy)
        assert options.transactional_id is not None
        assert self.sequences is not None, "options.is_idempotent"
        self._numbers: Sequences = self.sequences
        self._id = self._transactional_id = options.transactional_id
        self.phase = Phase.NEW
        self.failure = ErrorCode.NONE
        """Why the open transaction can only be aborted."""
        self.version = 0
        self._newest = OLDER
        self._requests = CoordinatorRequests(self.cluster, CoordinatorFinder(self.cluster, self._id, TRANSACTION))
        self._group_requests: dict[str, CoordinatorRequests] = {}
        self._added: set[TopicPartition] = set()
        self._adding: set[TopicPartition] = set()
        self._to_add: set[TopicPartition] = set()
        self._has_begun = False
        self._end_as: tuple[int, bool] | None = None
        self._is_ending = False
        self._results: list[Done] = []
        self._last_ticket_taken = 0

    def __repr__(self) -> str:
        return f"<TransactionalProducer {self._id!r} {self.phase.value} {self._numbers!r}>"

    # Calls.

    def init_transactions(self, now: Time) -> tuple[int, list[Effect]]:
        """Take over the ID: its earlier producer is fenced, and that producer's open transaction is aborted."""
        self._check(Phase.NEW)
        ticket = self._ticket()
        self._init(now, partial(self._report_end, ticket))
        return ticket, self._turn(now)

    def begin(self) -> None:
        self._check(Phase.READY)
        self.phase = Phase.OPEN
        self.failure = ErrorCode.NONE
        self._added.clear()
        self._to_add.clear()
        self._has_begun = False

    def send(self, topic: str, value: bytes | None, now: Time, **how: Any) -> tuple[int, list[Effect]]:
        """As `Producer.send`, in a transaction."""
        self._check(Phase.OPEN, Phase.FAILED)
        return super().send(topic, value, now, **how)

    def send_encoded(self, partition: TopicPartition, content: EncodedRecords, now: Time) -> tuple[int, list[Effect]]:
        """As `Producer.send_encoded`, in a transaction."""
        self._check(Phase.OPEN, Phase.FAILED)
        return super().send_encoded(partition, content, now)

    @property
    def identity(self) -> tuple[int, int]:
        """Producer ID and epoch of the open transaction; together with the transactional ID they are enough to end
        it."""
        return self._numbers.producer_id, self._numbers.epoch

    def send_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupPlace, now: Time
    ) -> tuple[int, list[Effect]]:
        """Commit the group's offsets as part of the transaction."""
        self._check(Phase.OPEN)
        ticket = self._ticket()
        request = transaction_requests.commit_offsets(self._id, self._numbers, offsets, group)
        if self.version >= VERSION_2:
            self._commit_offsets(ticket, request, now)
        else:
            add = transaction_requests.add_offsets(self._id, self._numbers, group.group_id)

            def added(code: ErrorCode, _response: Any, moment: Time) -> None:
                if code:
                    self._fail_offsets(ticket, code)
                else:
                    self._has_begun = True
                    self._commit_offsets(ticket, request, moment)

            self._send_to_coordinator(add, lambda response: code_of(response.error_code), added, now)
        return ticket, self._turn(now)

    def commit(self, now: Time) -> tuple[int, list[Effect]]:
        """Deliver everything that was sent, then commit. If something failed, the result has the error and `abort` must
        follow."""
        self._check(Phase.OPEN, Phase.FAILED)
        return self._begin_end(now, commit=True)

    def abort(self, now: Time) -> tuple[int, list[Effect]]:
        """Drop what was not sent yet, then abort."""
        self._check(Phase.OPEN, Phase.FAILED)
        self.phase = Phase.ENDING
        for batch in self._batches.take_all():
            self._numbers.failed(batch, may_be_appended=batch.was_sent)
            self._end(batch, batch.failed(ErrorCode.OPERATION_NOT_ATTEMPTED, "the transaction was aborted"))
        for topic, queue in self._waiting.items():
            for waiting in queue:
                self._fail_waiting(topic, waiting, ErrorCode.OPERATION_NOT_ATTEMPTED, "the transaction was aborted")
        self._waiting.clear()
        return self._begin_end(now, commit=False)

    def hand_over(self) -> None:
        """Leave the open transaction, all of whose records are acknowledged, to someone else, who knows its `identity`
        and ends it. Only `init_transactions` can follow, since the ID's next epoch is not known here."""
        self._check(Phase.OPEN)
        assert self._is_idle, "flush before"
        self._numbers.assign_id(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self.phase = Phase.NEW

    def take_results(self) -> list[Done]:
        """The calls that ended since the last time."""
        results, self._results = self._results, []
        return results

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that can be ended."""
        return self.phase in (Phase.OPEN, Phase.FAILED) and not self.fatal

    def _check(self, *phases: Phase) -> None:
        if self.fatal:
            raise ApiError(self.fatal, "this producer cannot be used any more")
        if self.phase not in phases or self._end_as is not None:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, f"{self!r} cannot do that now")

    def _ticket(self) -> int:
        self._last_ticket_taken += 1
        return self._last_ticket_taken

    # Beginning.

    def _init(self, now: Time, then: Callable[[ErrorCode], None]) -> None:
        request = transaction_requests.init(self._id, self._numbers, self.options.transaction_timeout_ms)

        def initialized(code: ErrorCode, response: Any, _now: Time) -> None:
            if not code:
                self._set_producer_id(response.producer_id, response.producer_epoch)
                self._set_version(*self._transaction_version(_now))
                self.phase = Phase.READY
            then(code)

        self._send_to_coordinator(request, lambda response: code_of(response.error_code), initialized, now)

    def _transaction_version(self, now: Time) -> tuple[int, Versions]:
        """The transaction version to use from now on, from the coordinator's cluster features."""
        node = self._requests.finder.node(now)
        level = 0 if node is None else self.network.feature(node, "transaction.version")
        return (VERSION_2, CURRENT) if level >= VERSION_2 else (0, OLDER)

    def _set_version(self, version: int, newest: Versions) -> None:
        self.version, self._newest = version, newest
        self._newest_produce = newest.produce

    def _set_producer_id(self, producer_id: int, epoch: int) -> None:
        self._numbers.assign_id(producer_id, epoch)

    # Sending.

    def _has_producer_id(self, sequences: Sequences, now: Time) -> bool:
        """Only the transaction's coordinator assigns the ID."""
        del now
        return sequences.has_id and self.phase in (Phase.OPEN, Phase.FAILED, Phase.ENDING) and not self.fatal

    def _may_send(self, batch: ProducerBatch, now: Time) -> bool:
        if self.phase is Phase.FAILED:
            return False
        self._has_begun = True
        if self.version >= VERSION_2 or batch.partition in self._added:
            return True
        if batch.partition not in self._adding:
            self._to_add.add(batch.partition)
        del now
        return False

    def _add_partitions(self, now: Time) -> None:
        """Add the waiting partitions, one request at a time."""
        if not self._to_add or self._adding:
            return
        self._adding, self._to_add = self._to_add, set()
        request = transaction_requests.add_partitions(self._id, self._numbers, self._adding)
        self._send_to_coordinator(
            request, transaction_requests.worst_added, self._partitions_added, now, newest=self._newest.add
        )

    def _partitions_added(self, code: ErrorCode, _response: Any, _now: Time) -> None:
        added, self._adding = self._adding, set()
        if code:
            self._fail(code)
        else:
            self._added |= added

    def _handle_batch_answer(
        self, batch: ProducerBatch, code: ErrorCode, answer: PartitionProduceResponse | None, now: Time
    ) -> None:
        """Retry a batch that overtook an earlier one which is being retried."""
        waiting = self._numbers.of(batch.partition).in_flight
        is_early = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and batch in waiting[1:] and not batch.is_done
        if is_early:
            self._retry(batch, answer, now)
        else:
            super()._handle_batch_answer(batch, code, answer, now)

    def _deliver(self, deliveries: Sequence[Delivery]) -> None:
        """A record that is not delivered is missing in the transaction, so the transaction fails."""
        super()._deliver(deliveries)
        code = next((delivery.error for delivery in deliveries if delivery.error), ErrorCode.NONE)
        if code and self.phase is not Phase.ENDING:
            self._fail(code)

    def _fail(self, code: ErrorCode) -> None:
        """From now on the transaction can only be aborted."""
        if self.failure is ErrorCode.NONE:
            self.failure = code
        if self.phase is Phase.OPEN:
            self.phase = Phase.FAILED
            for batch in self._batches.take_unsent():
                self._end(batch, batch.failed(code, "the transaction failed before it was sent"))

    # Positions.

    def _commit_offsets(self, ticket: int, request: TxnOffsetCommitRequest, now: Time) -> None:
        self._has_begun = True
        requests = self._group_requests.get(request.group_id)
        if requests is None:
            finder = CoordinatorFinder(self.cluster, request.group_id)
            requests = self._group_requests[request.group_id] = CoordinatorRequests(self.cluster, finder)

        def committed(code: ErrorCode, _response: Any, _now: Time) -> None:
            if code:
                self._fail_offsets(ticket, code)
            else:
                self._results.append(Done(ticket))

        timeout, newest = self.options.max_block_ms, self._newest.offsets
        requests.submit(
            request, transaction_requests.worst_committed, committed, now, timeout_ms=timeout, newest=newest
        )

    def _fail_offsets(self, ticket: int, code: ErrorCode) -> None:
        self._handle_fatal(code)
        self._fail(code)
        self._results.append(Done(ticket, error=code, message="the offsets were not added to the transaction"))

    # Ending.

    def _begin_end(self, now: Time, *, commit: bool) -> tuple[int, list[Effect]]:
        ticket = self._ticket()
        self._end_as = (ticket, commit)
        return ticket, self.flush(now)

    @property
    def _is_idle(self) -> bool:
        """Whether nothing of the transaction is in flight."""
        requests = [self._requests, *self._group_requests.values()]
        return not self._pending and not self._in_flight and all(each.is_idle for each in requests)

    def _maybe_end(self, now: Time) -> None:
        if self._end_as is None or self._is_ending:
            return
        ticket, commit = self._end_as
        if commit and (self.failure or self.fatal):
            self._end_as = None
            code = self.fatal or self.failure
            self._results.append(Done(ticket, error=code, message="part of the transaction failed; abort it"))
        elif self._is_idle:
            self._is_ending = True
            if self._has_begun:
                self._send_end(now, commit=commit)
            else:
                self._ended(ErrorCode.NONE, None, now)

    def _send_end(self, now: Time, *, commit: bool) -> None:
        request = transaction_requests.end(self._id, self._numbers, commit=commit)
        newest = self._newest.end
        self._send_to_coordinator(
            request, lambda response: code_of(response.error_code), self._ended, now, newest=newest
        )

    def _ended(self, code: ErrorCode, response: Any, now: Time) -> None:
        self._is_ending = False
        assert self._end_as is not None
        ticket, _commit = self._end_as
        if code:
            self._report_end(ticket, code)
            self._fail(code)
            self.phase = Phase.FAILED
        elif self.version >= VERSION_2:
            if response is not None:  # without a response nothing was sent in this epoch, so it stays
                self._set_producer_id(response.producer_id, response.producer_epoch)
            self._report_end(ticket, code)
        elif self.failure or self._numbers.unsettled:
            self._is_ending = True
            self._init(now, partial(self._id_renewed, ticket))
        else:
            self._report_end(ticket, code)

    def _id_renewed(self, ticket: int, code: ErrorCode) -> None:
        self._is_ending = False
        self._report_end(ticket, code)

    def _report_end(self, ticket: int, code: ErrorCode) -> None:
        self._end_as = None
        if code:
            self._results.append(Done(ticket, error=code, message=f"the transaction coordinator returned {code.name}"))
        else:
            self.phase = Phase.READY
            self.failure = ErrorCode.NONE
            self._results.append(Done(ticket))

    # The turn.

    def _send_to_coordinator(
        self,
        request: Any,
        code_in: Callable[[Any], ErrorCode],
        then: Callable[[ErrorCode, Any, Time], None],
        now: Time,
        *,
        newest: int = NEWEST,
    ) -> None:
        def finish(code: ErrorCode, response: Any, moment: Time) -> None:
            self._handle_fatal(code)
            then(code, response, moment)

        self._requests.submit(request, code_in, finish, now, timeout_ms=self.options.max_block_ms, newest=newest)

    def _handle_fatal(self, code: ErrorCode) -> None:
        if code in FATAL_ERRORS:
            self._fail_all(ErrorCode.PRODUCER_FENCED if code is ErrorCode.INVALID_PRODUCER_EPOCH else code)

    def _advance(self, now: Time) -> None:
        super()._advance(now)
        self._add_partitions(now)
        self._advance_requests(now)  # a request that expires now may be the last one that the end waits for
        self._maybe_end(now)
        self._advance_requests(now)

    def _advance_requests(self, now: Time) -> None:
        self._requests.advance(now)
        for requests in self._group_requests.values():
            requests.advance(now)

    def _own_deadline(self) -> int | None:
        moments = [
            super()._own_deadline(),
            self._requests.deadline,
            *(requests.deadline for requests in self._group_requests.values()),
        ]
        return earliest(*moments)
