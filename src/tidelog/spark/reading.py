"""One range of one partition, read on an executor as Arrow batches in the schema of Spark's own connector."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tidelog.client.reading.fetcher import Whole
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.transport import Consumer
from tidelog.spark import columns, connections
from tidelog.wire.records import HEADER_BYTES, BatchHeader, payload_of

PATIENCE_S = 60.0

SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS = ", headers array<struct<key:string,value:binary>>"


@dataclass
class Range(InputPartition):
    """Offsets [start, end) of one partition."""

    bootstrap: str
    topic: str
    partition: int
    start: int
    end: int
    headers: bool
    fail_on_data_loss: bool


class DataLost(Exception):
    """Records that the query should have read are no longer there."""


def read(part: InputPartition) -> Iterator[pa.RecordBatch]:
    """All records of the range that exist. Compaction and markers leave holes; what was deleted is an error unless
    failOnDataLoss is false. Where there is no range at all Spark asks for one of its own, which is empty."""
    if not isinstance(part, Range):
        return
    place = part.start
    while place < part.end:
        try:
            with connections.borrowed(part.bootstrap) as consumer:
                for whole in _fetched(consumer, part, place):
                    yield from batch(whole, part)
                    place = whole.batches[-1].next_offset if whole.batches else place
        except ApiError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            continue  # it was deleted meanwhile; the next look at the log's start judges
        return


def _fetched(consumer: Consumer, part: Range, start: int) -> Iterator[Whole]:
    name = TopicPartition(part.topic, part.partition)
    beginning = consumer.beginning_offsets([name])[name]
    if start < beginning:
        _lost(part, start, min(beginning, part.end), "deleted before they were read")
    place = max(start, beginning)
    if place < part.end:
        consumer.assign([name])
        consumer.seek(name, place)
    while place < part.end:
        fetched = consumer.poll_whole(PATIENCE_S)
        yield from fetched
        place = consumer.position(name)
        if not fetched:
            if consumer.end_offsets([name])[name] > place:
                raise TimeoutError(f"{name}: nothing came within {PATIENCE_S:.0f} s at {place}")
            _lost(part, place, part.end, "there and are gone")
            return


def _lost(part: Range, start: int, end: int, what: str) -> None:
    if part.fail_on_data_loss:
        raise DataLost(
            f"{part.topic}-{part.partition}: offsets {start} to {end} were {what}; "
            "set failOnDataLoss to false to go on without them"
        )


def batch(whole: Whole, part: Range) -> Iterator[pa.RecordBatch]:
    """The records of an answer that are in the range; none where there is none."""
    data, places = _payloads(whole)
    found = columns.columns(data, places)
    found = found.only((found.offsets >= max(whole.start, part.start)) & (found.offsets < part.end))
    count = len(found.offsets)
    if not count:
        return
    fields = {
        "key": columns.gathered(data, found.keys),
        "value": columns.gathered(data, found.values),
        "topic": pa.repeat(pa.scalar(part.topic), count),
        "partition": pa.repeat(pa.scalar(part.partition, pa.int32()), count),
        "offset": pa.array(found.offsets),
        "timestamp": pa.array(found.timestamps * 1000, pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array(found.stamped.astype(np.int32)),
    }
    if part.headers:
        fields["headers"] = columns.headers(data, found)
    yield pa.RecordBatch.from_arrays(list(fields.values()), names=list(fields))


def _payloads(whole: Whole) -> tuple[bytes, list[columns.Batch]]:
    """Where the records of the batches are: in what was fetched, or in one buffer of what was compressed."""
    if not any(each.compression for each in whole.batches):
        return whole.raw, [_place(each, each.position + HEADER_BYTES, each.end) for each in whole.batches]
    payloads = [payload_of(whole.raw, each) for each in whole.batches]
    ends = list(accumulate(map(len, payloads)))
    places = zip(whole.batches, payloads, ends, strict=True)
    return b"".join(payloads), [_place(each, end - len(payload), end) for each, payload, end in places]


def _place(batch: BatchHeader, start: int, end: int) -> columns.Batch:
    fixed = batch.max_timestamp if batch.is_log_append_time else None
    return columns.Batch(start, end, batch.count, batch.base_offset, batch.base_timestamp, fixed)
