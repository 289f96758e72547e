"""One range of one partition, read as Arrow batches in the schema of Spark's own connector: by executors of Spark, and
without Spark by `tidelog.frames`. A Python worker of Spark keeps its consumers from task to task."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.client.fetcher import FetchedBatches
from tidelog.client.options import ConsumerOptions
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.transport import Consumer
from tidelog.spark.access import Access
from tidelog.spark.reading import record_columns
from tidelog.spark.reading.consumers import ConsumerPool
from tidelog.spark.reading.data_loss import Losses
from tidelog.spark.reading.offsets import Span
from tidelog.spark.reading.read_options import ReadOptions
from tidelog.spark.reading.topics import ChosenTopics, find_topics
from tidelog.wire.records import HEADER_BYTES, BatchHeader, payload_of

INFLATED_AT_ONCE = 64 * 1024 * 1024
"""Bytes of decompressed records above which a table is made of them."""

kept_consumers = ConsumerPool()
"""Those of this Python worker."""


@dataclass
class Range:
    """Offsets [start, end) of one partition, and how to read them. `topic_id` is "" if unknown."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str
    bootstrap: str
    client: ConsumerOptions
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    patience_s: float

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def range_of(span: Span, topic_id: str, options: ReadOptions) -> Range:
    return Range(
        *span.name,
        span.start,
        span.end,
        topic_id,
        options.bootstrap,
        options.client,
        options.columns,
        options.fail_on_data_loss,
        options.poll_ms / 1000,
    )


def read(part: Range | None, consumers: ConsumerPool = kept_consumers) -> Iterator[pa.RecordBatch]:
    """All existing records of the range. Compaction and markers leave gaps; deleted records are an error unless
    failOnDataLoss is false. Spark passes None if there is no range at all."""
    if part is None:
        return
    offset = part.start
    while offset < part.end:
        try:
            with consumers.borrowed(part.bootstrap, part.client) as consumer:
                for fetched_batches in _fetch(consumer, part, offset):
                    yield from batch(fetched_batches, part, offset)
                    offset = fetched_batches.batches[-1].next_offset if fetched_batches.batches else offset
        except ApiError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                continue  # it was deleted meanwhile; the next lookup of the log start decides
            raise_read_error(error, part, offset)
        return


def _fetch(consumer: Consumer, part: Range, start: int) -> Iterator[FetchedBatches]:
    losses = Losses(fails=part.fail_on_data_loss)
    beginning = consumer.beginning_offsets([part.name])[part.name]
    _check_identity(consumer, part, losses)
    if start < beginning:
        gone = f"offsets {start} to {min(beginning, part.end)} were deleted before they were read"
        losses.report(f"{part.name}: {gone}")
    offset = max(start, beginning)
    if offset < part.end:
        consumer.assign([part.name])
        consumer.seek(part.name, offset)
    while offset < part.end:
        fetched = consumer.poll_whole(part.patience_s, part.end)
        _check_identity(consumer, part, losses)
        yield from fetched
        offset = consumer.position(part.name)
        if not fetched:
            _check_end(consumer, part, offset, losses)
            return


def _check_end(consumer: Consumer, part: Range, offset: int, losses: Losses) -> None:
    if consumer.end_offsets([part.name])[part.name] > offset:
        raise TimeoutError(
            f"{part.name}: nothing came within {part.patience_s:g} s at offset {offset}; check the leader, "
            "and its log with `tidelog audit`. Option 'kafkaConsumer.pollTimeoutMs' sets how long a task waits"
        )
    losses.report(f"{part.name}: offsets {offset} to {part.end} were there and are gone")


def _check_identity(consumer: Consumer, part: Range, losses: Losses) -> None:
    """A kept consumer may have stale metadata, so update it before reporting a loss."""
    found = consumer.topic_id(part.topic)
    if part.topic_id and found != part.topic_id:
        found = consumer.topic_id(part.topic, anew=True)
    if part.topic_id and found and found != part.topic_id:
        losses.report(f"topic {part.topic} was deleted and created again (its id is {found}, and was {part.topic_id})")


def batch(fetched_batches: FetchedBatches, part: Range, offset: int) -> Iterator[pa.RecordBatch]:
    """The fetched records in the range, from `offset` on; nothing if there are none."""
    for data, places in _payloads(fetched_batches):
        found = record_columns.columns(data, places)
        found = found.only((found.offsets >= max(fetched_batches.start, offset)) & (found.offsets < part.end))
        if len(found.offsets):
            arrays = [FIELDS[name](data, found, part) for name in part.columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(part.columns))


FIELDS: dict[str, Callable[[bytes, record_columns.Columns, Range], Any]] = {
    "key": lambda data, found, _: record_columns.binary_array(data, found.keys),
    "value": lambda data, found, _: record_columns.binary_array(data, found.values),
    "topic": lambda _, found, part: pa.repeat(pa.scalar(part.topic), len(found.offsets)),
    "partition": lambda _, found, part: pa.repeat(pa.scalar(part.partition, pa.int32()), len(found.offsets)),
    "offset": lambda _, found, __: pa.array(found.offsets),
    "timestamp": lambda _, found, __: pa.array(found.timestamps * 1000, pa.timestamp("us", tz="UTC")),
    "timestampType": lambda _, found, __: pa.array(found.stamped.astype(np.int32)),
    "headers": lambda data, found, _: record_columns.headers(data, found),
}
"""Each column; only the requested ones are built."""

TYPES: Mapping[str, Any] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": record_columns.HEADERS,
}


def schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of the batches of these columns."""
    return pa.schema([(name, TYPES[name]) for name in columns])


def _payloads(fetched_batches: FetchedBatches) -> Iterator[tuple[bytes, list[record_columns.Batch]]]:
    """Where the records of the batches are: in the fetched data, or in a buffer of what was decompressed. There are
    several buffers if it is much: a few kilobytes may inflate to many megabytes."""
    if not any(each.compression for each in fetched_batches.batches):
        places = [_located(each, each.position + HEADER_BYTES, each.end) for each in fetched_batches.batches]
        yield fetched_batches.raw, places
        return
    payloads: list[bytes] = []
    batches: list[BatchHeader] = []
    size = 0
    for each in fetched_batches.batches:
        payloads.append(payload_of(fetched_batches.raw, each))
        batches.append(each)
        size += len(payloads[-1])
        if size > INFLATED_AT_ONCE:
            yield _joined(batches, payloads)
            payloads, batches, size = [], [], 0
    if batches:
        yield _joined(batches, payloads)


def _joined(batches: list[BatchHeader], payloads: list[bytes]) -> tuple[bytes, list[record_columns.Batch]]:
    ends = accumulate(map(len, payloads))
    located = [
        _located(each, end - len(payload), end) for each, payload, end in zip(batches, payloads, ends, strict=True)
    ]
    return b"".join(payloads), located


def _located(batch: BatchHeader, start: int, end: int) -> record_columns.Batch:
    fixed = batch.max_timestamp if batch.is_log_append_time else None
    return record_columns.Batch(start, end, batch.count, batch.base_offset, batch.base_timestamp, fixed)


UNDECODABLE = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


class Undecodable(Exception):
    """A batch whose bytes are not valid records."""


def raise_read_error(error: ApiError, part: Range, offset: int) -> None:
    """Raise an error with the offset, the option and the remedy. A deleted topic is a data loss, only logged if
    failOnDataLoss is false."""
    if error.code in UNDECODABLE:
        raise Undecodable(
            f"{part.name}: no valid record batch at offset {offset} or soon after it: {error}; "
            "compare the replicas with `tidelog audit`, or start behind it with option 'startingOffsets'"
        )
    if _exists(part):
        raise ApiError(error.code, f"{part.name} cannot be read at offset {offset}: {error}; check its leader")
    losses = Losses(fails=part.fail_on_data_loss)
    losses.report(f"{part.name} is gone, and with it offsets {offset} to {part.end}, which were not read yet")


def _exists(part: Range) -> bool:
    with Access.of(part.bootstrap, part.client).lookup_admin() as admin:
        return part.name in find_topics(admin, ChosenTopics("subscribe", (part.topic,))).epochs
