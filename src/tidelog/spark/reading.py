"""One range of one partition, read on an executor as Arrow batches in the schema of Spark's own connector."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tidelog.client.results import ConsumerRecord
from tidelog.model import TopicPartition
from tidelog.shell.transport import Consumer

ROWS_A_BATCH = 10_000
PATIENCE_S = 120.0
LOG_APPEND_TIME = "LogAppendTime"

SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS = ", headers array<struct<key:string,value:binary>>"

_FIELDS = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("timestampType", pa.int32()),
]
_HEADERS = ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))


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


def read(part: Range) -> Iterator[pa.RecordBatch]:
    """All records of the range that exist. Compaction and markers leave holes; a range that begins before the log's
    start is an error unless failOnDataLoss is false."""
    name = TopicPartition(part.topic, part.partition)
    with Consumer(part.bootstrap, auto_offset_reset="none") as consumer:
        start = part.start
        beginning = consumer.beginning_offsets([name])[name]
        if start < beginning:
            if part.fail_on_data_loss:
                raise DataLost(
                    f"{name}: offsets {start} to {min(beginning, part.end)} were deleted before they were read; "
                    "set failOnDataLoss to false to go on without them"
                )
            start = beginning
        if start >= part.end:
            return
        consumer.assign([name])
        consumer.seek(name, start)
        yield from _batches(consumer, name, part)


def _batches(consumer: Consumer, name: TopicPartition, part: Range) -> Iterator[pa.RecordBatch]:
    rows: list[ConsumerRecord] = []
    while True:
        records = consumer.poll(PATIENCE_S, ROWS_A_BATCH)
        rows += [record for record in records if record.offset < part.end]
        done = consumer.position(name) >= part.end or (records and records[-1].offset + 1 >= part.end)
        if not records and not done:
            raise TimeoutError(f"{name}: nothing came within {PATIENCE_S:.0f} s at {consumer.position(name)}")
        if rows and (done or len(rows) >= ROWS_A_BATCH):
            yield batch(rows, headers=part.headers)
            rows = []
        if done:
            return


def batch(rows: Sequence[ConsumerRecord], *, headers: bool) -> pa.RecordBatch:
    columns: list[Sequence[Any]] = [
        [row.key for row in rows],
        [row.value for row in rows],
        [row.topic for row in rows],
        [row.partition for row in rows],
        [row.offset for row in rows],
        [row.timestamp * 1000 for row in rows],
        [int(row.timestamp_type == LOG_APPEND_TIME) for row in rows],
    ]
    fields = list(_FIELDS)
    if headers:
        fields.append(_HEADERS)
        columns.append([[{"key": key, "value": value} for key, value in row.headers] or None for row in rows])
    arrays = [pa.array(column, type=kind) for column, (_, kind) in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in fields])
