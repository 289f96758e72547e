"""Records of one partition that a producer sends together: gathered one by one, or encoded elsewhere many at once."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from tidelog.client.results import Delivery
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire import record_format
from tidelog.wire.records import HEADER_BYTES, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, BatchBuilder, Record


class Ticketed(NamedTuple):
    """A record, its ticket, and the bytes it takes in `buffer.memory`."""

    ticket: int
    record: Record
    size: int


class ProducerBatch:
    """`created` and `retry_at` are monotonic milliseconds; `attempts` counts the tries that ended."""

    def __init__(self, partition: TopicPartition, created: int) -> None:
        self.partition = partition
        self.created = created
        self.retry_at = 0
        self.attempts = 0
        self.was_sent = False
        """Whether a broker may have received it."""
        self.may_be_appended = False
        """Whether a broker may have appended it: a try had no response, or one that leaves it open."""
        self.is_in_flight = False
        self.is_done = False
        """Whether its deliveries are reported, even if it is still in flight after its timeout."""
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.sent_as = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
        """The numbers under which it was last sent."""
        self.accounted = 0
        self._content: list[Ticketed] = []
        self._builder = BatchBuilder()

    def __repr__(self) -> str:
        return f"<ProducerBatch {self.partition} {self.count} records, sequence {self.base_sequence}>"

    @property
    def count(self) -> int:
        return len(self._content)

    @property
    def delivery_count(self) -> int:
        """The number of deliveries it will produce."""
        return len(self._content)

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more records."""
        return self.attempts > 0 or self.has_sequence

    @property
    def size(self) -> int:
        """Its size before compression."""
        return self._builder.size

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Producer ID, epoch, first sequence number."""
        return self.producer_id, self.producer_epoch, self.base_sequence

    @property
    def first_ticket(self) -> int:
        return self._content[0].ticket

    def append(self, ticket: int, record: Record, size: int) -> None:
        self._content.append(Ticketed(ticket, record, size))
        self._builder.append(record)
        self.accounted += size

    def stamp(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence

    def encoded(self, compression: int, attributes: int = 0) -> bytes:
        return self._builder.build(
            compression=compression,
            attributes=attributes,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
        )

    def split(self) -> list["ProducerBatch"]:
        """Two batches with half of the records each; only for a batch of at least two."""
        middle = self.count // 2
        return [self._part(self._content[:middle]), self._part(self._content[middle:])]

    def _part(self, content: Sequence[Ticketed]) -> "ProducerBatch":
        part = ProducerBatch(self.partition, self.created)
        for ticketed in content:
            part.append(*ticketed)
        return part

    def delivered(self, base_offset: int, log_append_time: int) -> list[Delivery]:
        """A successful delivery for each record; `base_offset` is -1 if no broker reported it."""
        topic, partition = self.partition
        return [
            Delivery(
                ticket,
                topic,
                partition,
                base_offset + index if base_offset >= 0 else -1,
                record.timestamp if log_append_time < 0 else log_append_time,
            )
            for index, (ticket, record, _) in enumerate(self._content)
        ]

    def failed(self, error: ErrorCode, message: str | None) -> list[Delivery]:
        topic, partition = self.partition
        return [
            Delivery(ticket, topic, partition, timestamp=record.timestamp, error=error, message=message)
            for ticket, record, _ in self._content
        ]


class EncodedRecords(NamedTuple):
    """`records` records, one after another in `payload`, with offset deltas from 0 on; timestamps in wall ms."""

    payload: bytes
    records: int
    base_timestamp: int
    max_timestamp: int

    @property
    def size(self) -> int:
        """The size of the batch before compression."""
        return HEADER_BYTES + len(self.payload)


class EncodedBatch(ProducerBatch):
    """A batch whose records were encoded elsewhere, with one ticket and one delivery for all of them: the offset of the
    first."""

    def __init__(self, partition: TopicPartition, created: int, ticket: int, content: EncodedRecords) -> None:
        super().__init__(partition, created)
        self.accounted = content.size
        self._ticket = ticket
        self._records = content

    @property
    def count(self) -> int:
        return self._records.records

    @property
    def delivery_count(self) -> int:
        return 1

    @property
    def is_closed(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return self._records.size

    @property
    def first_ticket(self) -> int:
        return self._ticket

    def encoded(self, compression: int, attributes: int = 0) -> bytes:
        builder = BatchBuilder()
        builder.base_timestamp = self._records.base_timestamp
        builder.extend(self._records.payload, self._records.records, self._records.max_timestamp)
        return builder.build(
            compression=compression,
            attributes=attributes,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
        )

    def split(self) -> list[ProducerBatch]:
        """Two batches with the same ticket; each has its own delivery."""
        content = self._records
        found = record_format.decode(content.payload, content.records, 0, content.base_timestamp, None)
        parts: list[ProducerBatch] = []
        for size in (self.count // 2, self.count - self.count // 2):
            builder = BatchBuilder()
            for record in islice(found, size):
                builder.append(record)
            half = EncodedRecords(builder.payload, size, builder.base_timestamp, builder.max_timestamp)
            parts.append(EncodedBatch(self.partition, self.created, self._ticket, half))
        return parts

    def delivered(self, base_offset: int, log_append_time: int) -> list[Delivery]:
        time = self._records.base_timestamp if log_append_time < 0 else log_append_time
        return [Delivery(self._ticket, *self.partition, max(base_offset, -1), time)]

    def failed(self, error: ErrorCode, message: str | None) -> list[Delivery]:
        time = self._records.base_timestamp
        return [Delivery(self._ticket, *self.partition, timestamp=time, error=error, message=message)]
