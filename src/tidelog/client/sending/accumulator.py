"""Batches waiting to be sent, in order, by partition."""

from collections import deque
from collections.abc import Iterable

from tidelog.client.options import ProducerOptions
from tidelog.client.sending.batch import ProducerBatch
from tidelog.model import TopicPartition
from tidelog.wire.records import HEADER_BYTES, MAX_SEQUENCE, Record

_RECORD_OVERHEAD_BYTES = 21  # at most: length, attributes, deltas and field lengths of a record without headers


class Accumulator:
    """One queue for each partition; only its first batch may be sent. Times are monotonic milliseconds."""

    def __init__(self, options: ProducerOptions) -> None:
        self._options = options
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}

    def __repr__(self) -> str:
        return f"<Accumulator {sum(map(len, self._queues.values()))} batches>"

    def __bool__(self) -> bool:
        return bool(self._queues)

    def append(self, partition: TopicPartition, ticket: int, record: Record, size: int, now_ms: int) -> bool:
        """Add the record to its partition's last batch, or to a new one; returns whether there may be something to
        send."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = deque()
        batch = queue[-1] if queue else None
        is_new = batch is None or batch.is_closed
        if batch is None or is_new or batch.size + size - HEADER_BYTES > self._options.batch_size:
            batch = ProducerBatch(partition, now_ms)
            queue.append(batch)
            is_new = True
        batch.append(ticket, record, size)
        return is_new or batch.size >= self._options.batch_size

    def add(self, batch: ProducerBatch) -> None:
        """Add a complete batch at the end of its partition's queue."""
        self._queues.setdefault(batch.partition, deque()).append(batch)

    def ready(self, now_ms: int, flush_up_to: int) -> list[ProducerBatch]:
        """The first batches that need not wait: full, lingered long enough, due for a retry, or to be flushed."""
        return [queue[0] for queue in self._queues.values() if self._is_ready(queue, now_ms, flush_up_to)]

    def _is_ready(self, queue: deque[ProducerBatch], now_ms: int, flush_up_to: int) -> bool:
        batch = queue[0]
        if batch.attempts:
            return now_ms >= batch.retry_at
        return (
            len(queue) > 1
            or batch.size >= self._options.batch_size
            or now_ms >= batch.created + self._options.linger_ms
            or batch.first_ticket <= flush_up_to
        )

    def first(self) -> list[ProducerBatch]:
        """The next batch of each partition."""
        return [queue[0] for queue in self._queues.values()]

    def take(self, batch: ProducerBatch) -> None:
        """Remove the batch, which must be its partition's first, because it is being sent."""
        queue = self._queues[batch.partition]
        assert queue[0] is batch, "only the first batch of a partition is sent"
        queue.popleft()
        if not queue:
            del self._queues[batch.partition]

    def put_back(self, batches: Iterable[ProducerBatch]) -> None:
        """Put batches at the front of their queues, one after the other, but behind batches with earlier sequence
        numbers."""
        for batch in batches:
            queue = self._queues.setdefault(batch.partition, deque())
            partition = 0
            while partition < len(queue) and queue[partition].has_sequence and _is_before(queue[partition], batch):
                partition += 1
            queue.insert(partition, batch)

    def expired(self, created_by: int) -> list[ProducerBatch]:
        """Remove and return the batches created by then."""
        expired: list[ProducerBatch] = []
        for partition, queue in list(self._queues.items()):
            while queue and queue[0].created <= created_by:
                expired.append(queue.popleft())
            if not queue:
                del self._queues[partition]
        return expired

    def remove(self, batch: ProducerBatch) -> None:
        """Remove a batch that waits for a retry."""
        queue = self._queues[batch.partition]
        queue.remove(batch)
        if not queue:
            del self._queues[batch.partition]

    def take_all(self) -> list[ProducerBatch]:
        batches = [batch for queue in self._queues.values() for batch in queue]
        self._queues.clear()
        return batches

    def take_unsent(self) -> list[ProducerBatch]:
        """Remove and return the batches that have no sequence numbers yet."""
        unsent = [batch for queue in self._queues.values() for batch in queue if not batch.has_sequence]
        for batch in unsent:
            self.remove(batch)
        return unsent

    def deadlines(self, last_advance: int) -> list[int]:
        """When first batches expire or become ready. One that was already ready at `last_advance` waits for something
        else."""
        moments: list[int] = []
        for queue in self._queues.values():
            batch = queue[0]
            moments.append(batch.created + self._options.delivery_timeout_ms)
            due = batch.retry_at if batch.attempts else batch.created + self._options.linger_ms
            if due > last_advance:
                moments.append(due)
        return moments


def size_of(record: Record) -> int:
    """An upper bound of the size of a batch with just this record, before compression."""
    headers = sum(10 + 3 * len(name) + len(value or b"") for name, value in record.headers)
    return HEADER_BYTES + _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"") + headers


def _is_before(one: ProducerBatch, other: ProducerBatch) -> bool:
    return (other.base_sequence - one.base_sequence) & MAX_SEQUENCE < 2**30
