"""What makes a producer idempotent: its ID, its epoch, and the sequence numbers of its records in each partition
(KIP-98, 360).

Rules: a batch gets its numbers when it is first sent and keeps them through retries. When a batch fails for good, its
numbers are released and the batches behind it move up. If it is unknown whether a batch was appended, or the broker
misses numbers that no batch holds any more, the epoch is raised and the partition's numbers start at 0 again; a
partition moves to the new epoch when it has no batch in flight. A batch that may be in the log under its old numbers is
never sent under new ones: it fails, in doubt.
"""

from dataclasses import dataclass, field

from tidelog.client.options import KNOWN_BATCHES
from tidelog.client.sending.batch import ProducerBatch
from tidelog.model import TopicPartition
from tidelog.wire.records import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID

MAX_EPOCH = 2**15 - 1


def after(sequence: int, count: int) -> int:
    """The number `count` records later; numbers wrap to 0."""
    return (sequence + count) & MAX_SEQUENCE


@dataclass(slots=True)
class PartitionSequence:
    """One partition. `in_flight` are the batches with numbers that are neither acknowledged nor failed, in order."""

    producer_id: int
    epoch: int
    next: int = 0
    last_acknowledged: int = -1
    in_flight: list[ProducerBatch] = field(default_factory=list)
    is_unresolved: bool = False
    """A batch failed although it may have been appended: nothing new is numbered until that is resolved."""
    must_restart: bool = False
    """The broker misses numbers that no batch holds any more."""

    @property
    def is_settled(self) -> bool:
        return not self.is_unresolved and not self.must_restart


class Sequences:
    """All partitions of one idempotent producer."""

    def __init__(self) -> None:
        self.producer_id = NO_PRODUCER_ID
        self.epoch = NO_PRODUCER_EPOCH
        self._partitions: dict[TopicPartition, PartitionSequence] = {}

    def __repr__(self) -> str:
        return f"<Sequences producer={self.producer_id} epoch={self.epoch}>"

    @property
    def has_id(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    def assign_id(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch

    def of(self, partition: TopicPartition) -> PartitionSequence:
        """The partition's numbers, moved to the current epoch if no batch is in flight."""
        found = self._partitions.get(partition)
        current = (self.producer_id, self.epoch)
        if found is None or ((found.producer_id, found.epoch) != current and not found.in_flight):
            found = self._partitions[partition] = PartitionSequence(*current)
        return found

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether the batch may be sent now.

        A retry goes alone, as the first of all that wait. A new batch waits while an outcome is unknown, and while so
        many batches are unanswered (by this leader or an earlier one) that the broker would not recognize the first one
        again. Until the first batch of a partition is acknowledged it is alone as well: if it fails, a broker without
        state of the producer would take the next one for the first.
        """
        numbers = self.of(batch.partition)
        if batch.has_sequence:
            return numbers.in_flight[0] is batch and not numbers.must_restart
        if len(numbers.in_flight) >= (1 if numbers.last_acknowledged < 0 else KNOWN_BATCHES):
            return False
        return numbers.is_settled and (numbers.producer_id, numbers.epoch) == (self.producer_id, self.epoch)

    def number(self, batch: ProducerBatch) -> None:
        """Assign the batch its numbers, when it is first sent."""
        numbers = self.of(batch.partition)
        batch.stamp(numbers.producer_id, numbers.epoch, numbers.next)
        numbers.next = after(numbers.next, batch.count)
        numbers.in_flight.append(batch)

    def acknowledged(self, batch: ProducerBatch) -> None:
        numbers = self.of(batch.partition)
        if batch in numbers.in_flight:
            numbers.in_flight.remove(batch)
        if (batch.producer_id, batch.producer_epoch) == (numbers.producer_id, numbers.epoch):
            numbers.last_acknowledged = after(batch.base_sequence, batch.count - 1)

    def sequence_missing(self, batch: ProducerBatch) -> None:
        """The broker refused the batch because numbers before it are missing. If an earlier batch will be retried, or
        the batch's numbers moved meanwhile, a retry helps; otherwise the partition must restart."""
        numbers = self.of(batch.partition)
        if numbers.in_flight and numbers.in_flight[0] is batch and batch.sent_as == batch.numbers:
            numbers.must_restart = True

    def failed(self, batch: ProducerBatch, *, may_be_appended: bool) -> None:
        """The batch failed for good. The numbers of those behind it move up, unless it may be in the log."""
        numbers = self.of(batch.partition)
        if batch not in numbers.in_flight:
            return
        numbers.in_flight.remove(batch)
        if may_be_appended:
            numbers.is_unresolved = True
            return
        numbers.next = (numbers.next - batch.count) & MAX_SEQUENCE
        for later in numbers.in_flight:
            if (later.base_sequence - batch.base_sequence) & MAX_SEQUENCE < MAX_SEQUENCE // 2:
                later.stamp(later.producer_id, later.producer_epoch, (later.base_sequence - batch.count) & MAX_SEQUENCE)

    def replaced(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """A batch was too large and is replaced by smaller ones, which share its numbers."""
        numbers = self.of(batch.partition)
        position = numbers.in_flight.index(batch)
        sequence = batch.base_sequence
        for part in parts:
            part.stamp(batch.producer_id, batch.producer_epoch, sequence)
            sequence = after(sequence, part.count)
        numbers.in_flight[position : position + 1] = parts

    def settle(self, partition: TopicPartition) -> bool:
        """Try to leave the unsettled state; returns whether the epoch must be raised now to do so."""
        numbers = self._partitions.get(partition)
        if numbers is None or numbers.is_settled:
            return False
        if numbers.must_restart:
            return not any(batch.is_in_flight for batch in numbers.in_flight)
        if numbers.in_flight:
            return False
        if numbers.next == after(numbers.last_acknowledged, 1):
            numbers.is_unresolved = False  # a later batch was appended, so the failed one had been as well
            return False
        return True

    def in_doubt(self, partition: TopicPartition) -> list[ProducerBatch]:
        """Batches that may be in the log already: the broker would not recognize them under other numbers."""
        return [batch for batch in self._partitions[partition].in_flight if batch.may_be_appended]

    def raise_epoch(self, partition: TopicPartition) -> None:
        """Number the partition's batches from 0 in a new epoch. If the ID has no epoch left, a new ID must be requested
        first, and the partition stays unsettled."""
        if self.epoch >= MAX_EPOCH:
            self.producer_id, self.epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
            return
        self.epoch += 1
        unacknowledged = self._partitions[partition].in_flight
        fresh = self._partitions[partition] = PartitionSequence(self.producer_id, self.epoch, in_flight=unacknowledged)
        for batch in unacknowledged:
            batch.stamp(self.producer_id, self.epoch, fresh.next)
            fresh.next = after(fresh.next, batch.count)

    @property
    def unsettled(self) -> list[TopicPartition]:
        return [partition for partition, numbers in self._partitions.items() if not numbers.is_settled]
