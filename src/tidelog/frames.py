"""Topics as Arrow tables, without Spark: `read("flights", bootstrap="127.0.0.1:9092")` returns a `pyarrow.Table`, for
pandas, polars or DuckDB.

Columns, options and errors are those of the Spark source (`tidelog.spark.reading`), whose decoder reads the records.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tidelog.spark.options import BOOTSTRAP, BadOption
from tidelog.spark.reading import planning, task
from tidelog.spark.reading.consumers import ConsumerPool
from tidelog.spark.reading.read_options import ReadOptions

__all__ = ["BadOption", "batches", "read"]

Offsets = Mapping[int, int]
"""An offset by partition."""
Limit = str | datetime | Offsets | Mapping[str, Offsets]

DEFAULTS = {"groupIdPrefix": "tidelog-frames", "startingOffsetsByTimestampStrategy": "latest"}


def read(
    topic: str | Sequence[str],
    *,
    bootstrap: str,
    start: Limit = "earliest",
    end: Limit = "latest",
    columns: Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> pa.Table:
    """The records of one topic or several, by topic, partition and offset.

    `start` and `end` (exclusive) are "earliest" or "latest", a time with a time zone (the first record that is not
    older), or an offset for each partition: `{0: 100, 1: 250}`, and for several topics `{"flights": {0: 100, 1: 250}}`.
    `end` is resolved once, at the beginning. `columns` chooses among key, value, topic, partition, offset, timestamp,
    timestampType and headers; the default is all but headers. `options` are other options of the Spark source, such as
    `kafka.security.protocol`, `kafka.isolation.level` or `failOnDataLoss`.

    Raises BadOption for an invalid argument and for a missing topic or partition, ConnectionError if no broker
    answers, DataLost if records were deleted before they were read, ApiError for other errors of brokers.
    """
    with batches(topic, bootstrap=bootstrap, start=start, end=end, columns=columns, options=options) as found:
        return found.read_all()


def batches(
    topic: str | Sequence[str],
    *,
    bootstrap: str,
    start: Limit = "earliest",
    end: Limit = "latest",
    columns: Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """The same records, as an iterator of `pyarrow.RecordBatch` that keeps one fetch in memory: at most 8 MiB per
    partition (`kafka.max.partition.fetch.bytes`), and 64 MiB and a batch of what was compressed. Arguments and errors
    are those of `read`; the range is looked up at once, records are fetched while the batches are taken."""
    given = _options(topic, bootstrap, start, end, columns, options or {})
    ranges = planning.ranges(given)
    return pa.RecordBatchReader.from_batches(task.schema(given.columns), _read(ranges))


def _read(ranges: Sequence[task.Range]) -> Iterator[pa.RecordBatch]:
    consumers = ConsumerPool()
    try:
        for each in ranges:
            yield from task.read(each, consumers)
    finally:
        consumers.close()


def _options(
    topic: str | Sequence[str],
    bootstrap: str,
    start: Limit,
    end: Limit,
    columns: Sequence[str] | None,
    options: Mapping[str, str],
) -> ReadOptions:
    topics = [topic] if isinstance(topic, str) else list(topic)
    own = {
        BOOTSTRAP: bootstrap,
        "subscribe": ",".join(topics),
        **_limit("start", "starting", start, topics),
        **_limit("end", "ending", end, topics),
        **({} if columns is None else {"columns": ",".join(columns)}),
    }
    doubled = {name.lower() for name in own} & {name.lower() for name in options}
    if doubled:
        raise BadOption(f"option {min(doubled)!r} is given by an argument of its own")
    return ReadOptions.of({**DEFAULTS, **own, **options}, streaming=False)


def _limit(argument: str, side: str, limit: Limit, topics: Sequence[str]) -> dict[str, str]:
    """The option of the source that means this limit."""
    if isinstance(limit, str):
        return {f"{side}Offsets": limit}
    if isinstance(limit, datetime):
        return {f"{side}Timestamp": str(_milliseconds(argument, limit))}
    return {f"{side}Offsets": json.dumps(_by_topic(argument, limit, topics))}


def _milliseconds(argument: str, time: datetime) -> int:
    """Timestamps of records are whole milliseconds, so the time is rounded up."""
    if time.tzinfo is None:
        raise BadOption(f"{argument} is a time without a time zone: {time}; give one, such as tzinfo=UTC")
    return -((datetime(1970, 1, 1, tzinfo=UTC) - time) // timedelta(milliseconds=1))


def _by_topic(argument: str, limit: Mapping[Any, Any], topics: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    nested: Mapping[str, Offsets]
    if all(isinstance(each, Mapping) for each in limit.values()):
        nested = limit
    elif len(topics) == 1:
        nested = {topics[0]: limit}
    else:
        raise BadOption(f"{argument} must name the topics, as there are several: {{'topic': {{0: 100}}}}, not {limit}")
    return {name: {str(number): offset for number, offset in each.items()} for name, each in nested.items()}
