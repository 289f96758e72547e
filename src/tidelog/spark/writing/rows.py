"""Arrow batches as record batches, passed to a producer: what one task sends."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.client.results import Delivery
from tidelog.client.sending.batch import EncodedRecords
from tidelog.errors import ApiError
from tidelog.model import TopicPartition
from tidelog.shell.client_sockets import now
from tidelog.shell.transport import Producer
from tidelog.spark.writing import encoding
from tidelog.spark.writing.frame_columns import Columns, Part, parts
from tidelog.spark.writing.partitioning import Partitioner
from tidelog.spark.writing.write_options import WriteOptions

PIECE_BYTES = 64 * 1024 * 1024
"""At most this many bytes of rows, or one row, are encoded at once."""


class _Batch(NamedTuple):
    partition: int
    start: int
    end: int


class RowSender:
    """Sends the rows of one task; `flush` waits until all are acknowledged. ApiError if one fails."""

    def __init__(self, producer: Producer, options: WriteOptions, columns: Columns) -> None:
        self._producer = producer
        self._options = options
        self._columns = columns
        chosen = options.producer
        self._batch_bytes = max(1, min(chosen.batch_size, chosen.max_request_size))
        self._partitioner = Partitioner(self._batch_bytes, ignores_keys=chosen.partitioner_ignore_keys)
        self.first: dict[TopicPartition, int] = {}
        """The first offset that was acknowledged in each partition."""
        self.rows = 0

    def send(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            for part in parts(batch, self._options.topic, self._columns):
                for piece in _pieces(part):
                    self._send(piece)
            self._check(self._producer.deliveries())

    def flush(self) -> None:
        self._check(self._producer.flush())

    def _send(self, part: Part) -> None:
        wait = self._options.producer.max_block_ms / 1000
        partitions = self._producer.partitions_of(part.topic, wait)
        placed = self._partitioner.place(part.topic, part.rows, part.partitions, partitions)
        order = np.argsort(placed, kind="stable")
        rows, placed = part.rows.taken(order), placed[order]
        batches = list(_batches(placed, rows.sizes, self._batch_bytes))
        starts = np.array([batch.start for batch in batches], np.int64)
        deltas = np.arange(len(placed)) - np.repeat(starts, [batch.end - batch.start for batch in batches])
        data, bounds = encoding.payload(rows, deltas)
        time = now().wall
        for batch in batches:
            payload = bytes(data[bounds[batch.start] : bounds[batch.end]])
            content = EncodedRecords(payload, batch.end - batch.start, time, time)
            self._producer.send_encoded(TopicPartition(part.topic, batch.partition), content)
        self.rows += len(placed)

    def _check(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            if not delivery.is_acknowledged:
                where = f"topic {delivery.topic} partition {delivery.partition}"
                raise ApiError(delivery.error, f"{where} took no rows: {delivery.message or delivery.error.name}")
            place = TopicPartition(delivery.topic, delivery.partition)
            self.first[place] = min(delivery.offset, self.first.get(place, delivery.offset))


def _pieces(part: Part) -> Iterator[Part]:
    """The part in slices that are small enough to be encoded at once."""
    ends = np.cumsum(part.rows.sizes)
    start = 0
    while start < len(ends):
        end = _reach(ends, start, PIECE_BYTES)
        if (start, end) == (0, len(ends)):
            yield part
            return
        rows = encoding.Rows(*(None if column is None else column[start:end] for column in part.rows))
        yield Part(part.topic, rows, None if part.partitions is None else part.partitions[start:end])
        start = end


def _batches(placed: encoding.Numbers, sizes: encoding.Numbers, limit: int) -> Iterator[_Batch]:
    """Rows sorted by partition as batches of at most `limit` bytes, or of one row."""
    ends = np.cumsum(sizes)
    edges = np.flatnonzero(np.diff(placed)) + 1
    for first, last in zip((0, *edges.tolist()), (*edges.tolist(), len(placed)), strict=True):
        start = first
        while start < last:
            end = min(_reach(ends, start, limit), last)
            yield _Batch(int(placed[start]), start, end)
            start = end


def _reach(ends: encoding.Numbers, start: int, limit: int) -> int:
    """How many rows from `start` on fit the limit, at least one."""
    before = ends[start - 1] if start else 0
    return max(start + 1, int(np.searchsorted(ends, before + limit, side="right")))
