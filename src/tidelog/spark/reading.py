"""One range of one partition, read on an executor as Arrow batches in the schema of Spark's own connector."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tidelog.client.results import ConsumerRecord
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.transport import Consumer

ROWS_A_BATCH = 10_000
PATIENCE_S = 60.0
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


def read(part: InputPartition) -> Iterator[pa.RecordBatch]:
    """All records of the range that exist. Compaction and markers leave holes; what was deleted is an error unless
    failOnDataLoss is false. Where there is no range at all Spark asks for one of its own, which is empty."""
    if not isinstance(part, Range):
        return
    place = part.start
    while place < part.end:
        try:
            for rows in _rows(part, place):
                yield batch(rows, headers=part.headers)
                place = rows[-1].offset + 1
        except ApiError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            continue  # it was deleted meanwhile; the next look at the log's start judges
        return


def _rows(part: Range, start: int) -> Iterator[list[ConsumerRecord]]:
    name = TopicPartition(part.topic, part.partition)
    with Consumer(part.bootstrap, auto_offset_reset="none", allow_auto_create_topics=False) as consumer:
        beginning = consumer.beginning_offsets([name])[name]
        if start < beginning:
            _lost(part, start, min(beginning, part.end), "deleted before they were read")
        place = max(start, beginning)
        if place >= part.end:
            return
        consumer.assign([name])
        consumer.seek(name, place)
        yield from _polled(consumer, name, part)


def _polled(consumer: Consumer, name: TopicPartition, part: Range) -> Iterator[list[ConsumerRecord]]:
    rows: list[ConsumerRecord] = []
    while True:
        records = consumer.poll(PATIENCE_S, ROWS_A_BATCH)
        rows += [record for record in records if record.offset < part.end]
        place = consumer.position(name)
        done = place >= part.end or bool(records and records[-1].offset + 1 >= part.end)
        if not records and not done:
            if consumer.end_offsets([name])[name] > place:
                raise TimeoutError(f"{name}: nothing came within {PATIENCE_S:.0f} s at {place}")
            _lost(part, place, part.end, "there and are gone")
            done = True
        if rows and (done or len(rows) >= ROWS_A_BATCH):
            yield rows
            rows = []
        if done:
            return


def _lost(part: Range, start: int, end: int, what: str) -> None:
    if part.fail_on_data_loss:
        raise DataLost(
            f"{part.topic}-{part.partition}: offsets {start} to {end} were {what}; "
            "set failOnDataLoss to false to go on without them"
        )


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
