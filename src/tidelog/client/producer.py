"""The producer: collects records into batches by partition, and batches into requests by leader.

`send` returns a ticket; `take_deliveries` returns its `Delivery` when the record was acknowledged as `acks` requires,
or has failed. At most once: acks=0. At least once: acks=all with retries. Exactly once in the log: idempotence.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from tidelog.client.backoff import Entropy
from tidelog.client.client import Client
from tidelog.client.link import Answer
from tidelog.client.metadata import TopicInfo
from tidelog.client.options import Address, ProducerOptions
from tidelog.client.results import Delivery, code_of
from tidelog.client.sending import produce_requests
from tidelog.client.sending.accumulator import Accumulator, size_of
from tidelog.client.sending.batch import EncodedBatch, EncodedRecords, ProducerBatch
from tidelog.client.sending.partitioner import Sticky, partition_of_key
from tidelog.client.sending.produce_requests import SentRequest, produce_request
from tidelog.client.sending.sequences import Sequences
from tidelog.client.waiting import Troubles, lasting, missing
from tidelog.effects import Effect
from tidelog.errors import RETRIABLE, ErrorCode
from tidelog.model import Time, TopicPartition
from tidelog.wire.compression import named
from tidelog.wire.messages.records.produce import PartitionProduceResponse
from tidelog.wire.messages.transactions.transaction_requests import InitProducerIdRequest
from tidelog.wire.record_format import Header
from tidelog.wire.records import Record


class _Waiting(NamedTuple):
    """A record whose topic is not in the metadata yet."""

    ticket: int
    partition: int | None
    record: Record
    since: int


class Producer(Client):
    """Inputs and effects as in `Client`; calls: `send`, `flush`, `close`."""

    def __init__(self, bootstrap: Sequence[Address], options: ProducerOptions, entropy: Entropy) -> None:
        super().__init__(bootstrap, options, entropy, creates_topics=True)
        self.options = options
        self.sequences = Sequences() if options.is_idempotent else None
        self.buffered_bytes = 0
        """Of records without a delivery so far, those that wait for metadata included (`buffer.memory`)."""
        self.fatal: ErrorCode = ErrorCode.NONE
        """Why this producer cannot send any more; every later record fails with it."""
        self._compression = named(options.compression_type)
        self._sticky = Sticky(entropy, options.batch_size)
        self._last_ticket = 0
        self._flush_up_to = 0
        """Batches with tickets up to this one do not linger."""
        self._pending = 0
        self._waiting: dict[str, deque[_Waiting]] = {}
        """By topic, in the order of `send`: while a topic waits, its new records queue here too, to keep that order."""
        self._batches = Accumulator(options)
        """Batches that are not in flight."""
        self._requests_in_flight: defaultdict[int, int] = defaultdict(int)
        """By node (`max.in.flight.requests.per.connection`)."""
        self._in_flight: dict[ProducerBatch, None] = {}
        """In the order in which they were sent."""
        self._deliveries: list[Delivery] = []
        self._is_requesting_id = False
        self._request_id_at = 0
        self._transactional_id: str | None = None
        self._newest_produce = 32767
        """The newest version of Produce that may be used; a transaction's version limits it."""
        self._troubles = Troubles()
        self._last_advance = 0
        """When `_advance` ran last. What was due by then and was not sent waits for an input, and sets no deadline."""

    def __repr__(self) -> str:
        return f"<Producer {self._pending} pending, {self.buffered_bytes} bytes buffered>"

    @property
    def pending(self) -> int:
        """Records without a delivery so far."""
        return self._pending

    @property
    def has_room(self) -> bool:
        """Whether `buffer.memory` has room. A caller that sends regardless only uses more memory."""
        return self.buffered_bytes < self.options.buffer_memory

    def send(
        self,
        topic: str,
        value: bytes | None,
        now: Time,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> tuple[int, list[Effect]]:
        """Buffer a record, and return (its ticket, effects). `timestamp` is in wall milliseconds, now if None."""
        self._last_ticket += 1
        self._pending += 1
        record = Record(0, now.wall if timestamp is None else timestamp, key, value, headers)
        size = size_of(record)
        if self.fatal or size > self.options.max_request_size:
            code = self.fatal or ErrorCode.MESSAGE_TOO_LARGE
            reason = f"the record needs {size} bytes, max.request.size is {self.options.max_request_size}"
            self._deliver([Delivery(self._last_ticket, topic, -1, error=code, message=None if self.fatal else reason)])
            return self._last_ticket, []
        info = self.metadata.topics.get(topic)
        if topic in self._waiting or info is None or not self._has_partition(info, partition):
            self._waiting.setdefault(topic, deque()).append(_Waiting(self._last_ticket, partition, record, now.mono))
            self.buffered_bytes += size
            is_new = len(self._waiting[topic]) == 1
            self.cluster.add_topics([topic], now)
            return self._last_ticket, self._turn(now) if is_new else []
        is_turn = self._append(self._last_ticket, info, partition, record, size, now)
        return self._last_ticket, self._turn(now) if is_turn else []

    def send_encoded(self, partition: TopicPartition, content: EncodedRecords, now: Time) -> tuple[int, list[Effect]]:
        """Buffer records that are encoded as one batch. Its single `Delivery` has the offset of the first record; if
        the broker requires smaller batches, there is one for each part."""
        self._last_ticket += 1
        self._pending += 1
        batch = EncodedBatch(partition, now.mono, self._last_ticket, content)
        reason = f"a record needs {content.size} bytes, max.request.size is {self.options.max_request_size}"
        if self.fatal or (content.records == 1 and content.size > self.options.max_request_size):
            code = self.fatal or ErrorCode.MESSAGE_TOO_LARGE
            self._deliver(batch.failed(code, None if self.fatal else reason))
            return self._last_ticket, []
        self.buffered_bytes += batch.accounted
        self._batches.add(batch)
        return self._last_ticket, self._turn(now)

    def flush(self, now: Time) -> list[Effect]:
        """Send what is buffered without lingering; it is complete when `pending` is 0."""
        self._flush_up_to = self._last_ticket
        return self._turn(now)

    def close(self, _now: Time) -> list[Effect]:
        """Close all connections. Flush first if pending records matter."""
        self._closed = True
        self.network.close()
        return self.network.take_effects()

    def waits(self, now: Time, patience_ms: int) -> list[str]:
        """Why records have not been acknowledged for at least `patience_ms`, in words."""
        oldest: dict[TopicPartition, int] = {}
        for batch in (*self._in_flight, *self._batches.first()):
            since = self._troubles.since(batch.partition)
            oldest.setdefault(batch.partition, batch.created if since is None else since)
        acks = self.options.required_acks
        found = [
            (since, self._troubles.reason(self.cluster, partition, acks=acks)) for partition, since in oldest.items()
        ]
        sequences = self.sequences
        if found and sequences is not None and not sequences.has_id:
            found = [(min(oldest.values()), "no broker gives a producer id")]
        found += [
            (waiting[0].since, f"{topic}: {missing(self.cluster, topic)}") for topic, waiting in self._waiting.items()
        ]
        return lasting(found, now.mono, patience_ms)

    def take_deliveries(self) -> list[Delivery]:
        """The deliveries since the last call."""
        deliveries, self._deliveries = self._deliveries, []
        return deliveries

    # Batching.

    def _has_partition(self, info: TopicInfo, partition: int | None) -> bool:
        if info.error is not ErrorCode.NONE or not info.partitions:
            return False
        return partition is None or partition in info.partitions

    def _append(
        self, ticket: int, info: TopicInfo, partition: int | None, record: Record, size: int, now: Time
    ) -> bool:
        """Append the record to a batch; returns whether there may be something to send."""
        if partition is None:
            partition = self._partition_for(info, record, size)
        self.buffered_bytes += size
        return self._batches.append(TopicPartition(info.name, partition), ticket, record, size, now.mono)

    def _partition_for(self, info: TopicInfo, record: Record, size: int) -> int:
        if record.key is not None and not self.options.partitioner_ignore_keys:
            return partition_of_key(record.key, len(info.partitions))
        led = [index for index, partition in info.partitions.items() if partition.leader in self.metadata.brokers]
        return self._sticky.partition(info.name, len(info.partitions), led, size)

    def _append_waiting(self, now: Time) -> None:
        """Append records whose topics are known by now, in order; fail those that waited too long."""
        for topic in list(self._waiting):
            queue = self._waiting[topic]
            info = self.metadata.topics.get(topic)
            while queue:
                first = queue[0]
                if info is not None and self._has_partition(info, first.partition):
                    size = size_of(first.record)
                    self.buffered_bytes -= size
                    self._append(first.ticket, info, first.partition, first.record, size, now)
                elif info is not None and info.error in produce_requests.TOPIC_ERRORS:
                    self._fail_waiting(topic, first, info.error, None)
                elif now.mono - first.since >= self.options.max_block_ms:
                    missing = topic if first.partition is None else f"partition {first.partition} of {topic}"
                    reason = f"{missing} is not in the metadata after {self.options.max_block_ms} ms"
                    self._fail_waiting(topic, first, ErrorCode.REQUEST_TIMED_OUT, reason)
                else:
                    break
                queue.popleft()
            if not queue:
                del self._waiting[topic]

    def _fail_waiting(self, topic: str, waiting: _Waiting, error: ErrorCode, reason: str | None) -> None:
        self.buffered_bytes -= size_of(waiting.record)
        partition = -1 if waiting.partition is None else waiting.partition
        self._deliver([Delivery(waiting.ticket, topic, partition, error=error, message=reason)])

    # Sending.

    def _advance(self, now: Time) -> None:
        """Send what may be sent. Expired batches fail first, so that they are not sent once more."""
        self._last_advance = now.mono
        if self._waiting:
            self._append_waiting(now)
        self._expire(now)
        if self.sequences is not None and not self._has_producer_id(self.sequences, now):
            return
        for node, batches in self._drain(now).items():
            self._send_batches(node, batches, now)

    def _has_producer_id(self, sequences: Sequences, now: Time) -> bool:
        """Request a producer ID once there is something to send; returns whether there is one."""
        for partition in sequences.unsettled:
            if sequences.has_id and sequences.settle(partition):
                self._fail_in_doubt(sequences, partition)
                sequences.raise_epoch(partition)
        if not sequences.has_id and not self._is_requesting_id and now.mono >= self._request_id_at and self._batches:
            node = self.network.any_node(now.mono)
            if node is None:
                self._request_id_at = self.network.next_usable_at
                return False
            self._is_requesting_id = True
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
            self.cluster.send_request(node, request, self._producer_id_answered, now)
        return sequences.has_id

    def _fail_in_doubt(self, sequences: Sequences, partition: TopicPartition) -> None:
        """Fail batches that may be in the log already.

        A broker that started from a snapshot knows only the last batch of each producer. If an earlier one is sent
        again, it looks like a gap; under new sequence numbers it would be in the log twice.
        """
        for batch in sequences.in_doubt(partition):
            self._batches.remove(batch)
            reason = "the broker no longer knows whether it was appended"
            self._fail_batch(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, reason, in_doubt=True)

    def _producer_id_answered(self, answer: Answer, now: Time) -> None:
        self._is_requesting_id = False
        code = answer.fault or code_of(answer.response.error_code)
        if not code and self.sequences is not None:
            self.sequences.assign_id(answer.response.producer_id, answer.response.producer_epoch)
        elif code in RETRIABLE or answer.fault:
            self._request_id_at = now.mono + self.options.retry_backoff_ms
        else:
            self._fail_all(code)

    def _fail_all(self, code: ErrorCode) -> None:
        """Fail everything: this producer cannot send any more."""
        self.fatal = code
        for batch in self._batches.take_all():
            self._end(batch, batch.failed(code, "the producer cannot continue"))

    def _drain(self, now: Time) -> dict[int, list[ProducerBatch]]:
        """The first batch of each partition that is ready, by leader, as far as the limit of requests in flight
        allows."""
        chosen: dict[int, list[ProducerBatch]] = {}
        sizes: defaultdict[int, int] = defaultdict(int)
        for batch in self._batches.ready(now.mono, self._flush_up_to):
            node = self.metadata.leader(batch.partition)
            if node is None or not self.network.is_usable(node, now.mono):
                self.cluster.request_metadata_update(now)
                continue
            if self._requests_in_flight[node] >= self.options.max_in_flight_requests_per_connection:
                continue
            if self.sequences is not None and not self.sequences.may_send(batch):
                continue
            if not self._may_send(batch, now):
                continue
            sizes[node] += batch.size
            if node in chosen and sizes[node] > self.options.max_request_size:
                continue
            chosen.setdefault(node, []).append(batch)
            self._batches.take(batch)
        return chosen

    def _may_send(self, _batch: ProducerBatch, _now: Time) -> bool:
        """Whether nothing else must be done first; a transaction may have to add the partition."""
        return True

    def _send_batches(self, node: int, batches: Sequence[ProducerBatch], now: Time) -> None:
        for batch in batches:
            if self.sequences is not None and not batch.has_sequence:
                self.sequences.number(batch)
            batch.was_sent = batch.is_in_flight = True
            batch.sent_as = batch.numbers
        acks = self.options.required_acks
        timeout = self.options.request_timeout_ms
        request, sent = produce_request(
            batches,
            self.metadata,
            acks=acks,
            timeout_ms=timeout,
            compression=self._compression,
            transactional_id=self._transactional_id,
        )
        self._requests_in_flight[node] += 1
        self._in_flight.update(dict.fromkeys(batches))
        handle = partial(self._answered, sent)
        newest = min(sent.newest, self._newest_produce)
        self.cluster.send_request(node, request, handle, now, newest=newest, expects_answer=acks != 0)

    # Answers.

    def _answered(self, sent: SentRequest, answer: Answer, now: Time) -> None:
        self._requests_in_flight[answer.node] -= 1
        for batch in sent.batches.values():
            batch.is_in_flight = False
            batch.attempts += 1
            self._in_flight.pop(batch, None)
        if answer.fault:
            self.cluster.request_metadata_update(now)
            for batch in sent.batches.values():
                self._handle_batch_answer(batch, answer.fault, None, now)
        elif answer.response is None:
            for batch in sent.batches.values():
                self._end(batch, batch.delivered(-1, -1))
        else:
            self.cluster.learn_endpoints(answer.response.node_endpoints)
            partition_answers = dict(sent.partition_answers(answer.response.responses))
            for partition, batch in sent.batches.items():
                found = partition_answers.get(partition)
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else code_of(found.error_code)
                self._handle_batch_answer(batch, code, found, now)

    def _handle_batch_answer(
        self, batch: ProducerBatch, code: ErrorCode, answer: PartitionProduceResponse | None, now: Time
    ) -> None:
        """Apply an answer to one batch."""
        sequences = self.sequences
        batch.may_be_appended |= code not in produce_requests.NOT_APPENDED
        if code is ErrorCode.NONE:
            self._troubles.clear(batch.partition)
        else:
            self._troubles.note(batch.partition, code, None if answer is None else answer.error_message, now.mono)
        if code is ErrorCode.NONE or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            if sequences is not None:
                sequences.acknowledged(batch)
            base_offset = answer.base_offset if answer is not None and not code else -1
            self._end(batch, batch.delivered(base_offset, -1 if answer is None else answer.log_append_time_ms))
        elif batch.is_done:
            return
        elif code is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(batch)
        elif sequences is not None and code in produce_requests.SEQUENCE_ERRORS and self._transactional_id is None:
            sequences.sequence_missing(batch)
            self._retry(batch, answer, now)
        elif (code in RETRIABLE or answer is None) and batch.attempts <= self.options.retries:
            self._retry(batch, answer, now)
        else:
            self._fail_batch(batch, code, None if answer is None else answer.error_message, in_doubt=answer is None)
            if code in produce_requests.FATAL_ERRORS:
                self._fail_all(code)

    def _retry(self, batch: ProducerBatch, answer: PartitionProduceResponse | None, now: Time) -> None:
        """Put the batch back at the front of its partition's queue, behind batches with earlier sequence numbers."""
        wait = min(self.options.retry_backoff_ms << min(batch.attempts - 1, 10), self.options.retry_backoff_max_ms)
        batch.retry_at = now.mono + wait
        if answer is not None and answer.error_code:
            leader = answer.current_leader
            if self.metadata.learn_leader(batch.partition, leader.leader_id, leader.leader_epoch):
                batch.retry_at = now.mono
            else:
                self.cluster.request_metadata_update(now)
        self._batches.put_back([batch])

    def _split(self, batch: ProducerBatch) -> None:
        """Send two batches of half the size, at once: the broker does not accept one of this size."""
        parts = batch.split()
        self._pending += sum(part.delivery_count for part in parts) - batch.delivery_count
        if self.sequences is not None:
            self.sequences.replaced(batch, parts)
        for part in parts:
            part.attempts = batch.attempts
            part.was_sent = batch.was_sent
            part.may_be_appended = batch.may_be_appended
        self._batches.put_back(reversed(parts) if self.sequences is None else parts)

    def _fail_batch(self, batch: ProducerBatch, code: ErrorCode, reason: str | None, *, in_doubt: bool) -> None:
        if self.sequences is not None and batch.has_sequence:
            self.sequences.failed(batch, may_be_appended=in_doubt)
        self._end(batch, batch.failed(code, reason))

    def _expire(self, now: Time) -> None:
        """Fail batches older than `delivery.timeout.ms`, wherever they are."""
        created_by = now.mono - self.options.delivery_timeout_ms
        reason = f"not acknowledged within {self.options.delivery_timeout_ms} ms"
        for batch in self._batches.expired(created_by):
            self._fail_batch(batch, ErrorCode.REQUEST_TIMED_OUT, reason, in_doubt=batch.was_sent)
        for batch in [batch for batch in self._in_flight if batch.created <= created_by and not batch.is_done]:
            self._fail_batch(batch, ErrorCode.REQUEST_TIMED_OUT, reason, in_doubt=True)

    def _end(self, batch: ProducerBatch, deliveries: Sequence[Delivery]) -> None:
        if not batch.is_done:
            batch.is_done = True
            self.buffered_bytes -= batch.accounted
            self._deliver(deliveries)

    def _deliver(self, deliveries: Sequence[Delivery]) -> None:
        self._pending -= len(deliveries)
        self._deliveries += deliveries

    def _own_deadline(self) -> int | None:
        """When the next batch is ready or expires, or the next request of a producer ID is due."""
        options = self.options
        moments = [batch.created + options.delivery_timeout_ms for batch in self._in_flight if not batch.is_done]
        moments += self._batches.deadlines(self._last_advance)
        moments += [waiting[0].since + options.max_block_ms for waiting in self._waiting.values()]
        if self._batches and self.sequences is not None and not self.sequences.has_id and not self._is_requesting_id:
            moments.append(self._request_id_at)
        return min(moments, default=None)
