"""Batches whose records were encoded elsewhere, many at once: one ticket and one delivery for all of them."""

from itertools import islice
from typing import NamedTuple

from tidelog.client.results import Delivery
from tidelog.client.sending.batch import ProducerBatch
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire import record_format
from tidelog.wire.records import HEADER_BYTES, BatchBuilder


class EncodedRecords(NamedTuple):
    """`records` of them one after another in `payload`, with offset deltas from 0 on; timestamps in wall ms."""

    payload: bytes
    records: int
    base_timestamp: int
    max_timestamp: int

    @property
    def size(self) -> int:
        """Of the batch, before compression."""
        return HEADER_BYTES + len(self.payload)


class EncodedBatch(ProducerBatch):
    """What `ProducerBatch` is for single records. Its delivery tells the offset of the first."""

    def __init__(self, partition: TopicPartition, created: int, ticket: int, content: EncodedRecords) -> None:
        super().__init__(partition, created)
        self.accounted = content.size
        self._ticket = ticket
        self._records = content

    @property
    def count(self) -> int:
        return self._records.records

    @property
    def tickets(self) -> int:
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
        """Two batches with the same ticket: each tells its own delivery."""
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
