"""Topics as Arrow tables, without Spark."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from tests.spark.records import create, delete_before, numbers, send
from tidelog import frames
from tidelog.shell.transport import Producer
from tidelog.spark.reading.data_loss import DataLost

MIB = 1024 * 1024
ALL = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def milliseconds(time):
    return int(time.timestamp() * 1000)


@pytest.fixture(scope="module")
def timed(tides):
    """Two partitions: 0 to 9, one a minute, and 100 to 104."""
    topic = create(tides, "timed", 2)
    with Producer(tides.bootstrap) as producer:
        for number in range(10):
            producer.send(
                topic, b"%d" % number, key=b"k%d" % number, partition=0, timestamp=milliseconds(NOON + number * MINUTE)
            )
        for number in range(100, 105):
            producer.send(topic, b"%d" % number, partition=1, timestamp=milliseconds(NOON))
        assert all(delivery.is_acknowledged for delivery in producer.flush())
    return topic


def found(tides, topic, **options):
    return [int(value) for value in frames.read(topic, bootstrap=tides.bootstrap, **options)["value"].to_pylist()]


def test_a_topic_is_a_table_with_the_columns_of_the_source(tides, timed):
    table = frames.read(timed, bootstrap=tides.bootstrap)
    assert table.column_names == ALL
    assert table.slice(9, 2).to_pylist() == [
        {
            "key": b"k9",
            "value": b"9",
            "topic": timed,
            "partition": 0,
            "offset": 9,
            "timestamp": NOON + 9 * MINUTE,
            "timestampType": 0,
        },
        {
            "key": None,
            "value": b"100",
            "topic": timed,
            "partition": 1,
            "offset": 0,
            "timestamp": NOON,
            "timestampType": 0,
        },
    ]


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({}, [*range(10), *range(100, 105)]),
        ({"start": {0: 4, 1: 2}, "end": {0: 7, 1: 3}}, [4, 5, 6, 102]),
        ({"start": NOON + MINUTE / 2, "end": NOON + 3 * MINUTE}, [1, 2]),  # all of partition 1 is older
        ({"start": NOON + timedelta(days=1)}, []),
        ({"start": NOON + 9 * MINUTE + timedelta(microseconds=1)}, []),
        ({"end": "latest", "start": {0: -2, 1: 5}}, [*range(10)]),
    ],
    ids=str,
)
def test_limits_are_names_times_or_offsets(tides, timed, limits, wanted):
    assert found(tides, timed, **limits) == wanted


def test_several_topics_are_one_table(tides, timed):
    other = create(tides, "other")
    send(tides.bootstrap, other, numbers(500, 503))
    both = [timed, other]
    table = frames.read(both, bootstrap=tides.bootstrap, columns=["topic", "offset"])
    assert table.group_by("topic").aggregate([("offset", "count")]).sort_by("topic").to_pylist() == [
        {"topic": other, "offset_count": 3},
        {"topic": timed, "offset_count": 15},
    ]
    start = {timed: {0: 10, 1: 4}, other: {0: 2}}
    assert sorted(found(tides, both, start=start)) == [104, 502]
    with pytest.raises(frames.BadOption, match="start must name the topics"):
        found(tides, both, start={0: 10})


def test_an_empty_topic_is_an_empty_table_with_the_same_schema(tides, timed):
    empty = frames.read(create(tides, "empty"), bootstrap=tides.bootstrap, options={"includeHeaders": "true"})
    full = frames.read(timed, bootstrap=tides.bootstrap, options={"includeHeaders": "true"})
    assert (empty.num_rows, empty.schema) == (0, full.schema)
    assert full["headers"].null_count == 15


def test_pandas_polars_and_duckdb_read_it(tides, timed):
    table = frames.read(timed, bootstrap=tides.bootstrap, columns=["value", "partition"])
    assert table.to_pandas().groupby("partition").size().to_dict() == {0: 10, 1: 5}
    assert pl.from_arrow(table).filter(pl.col("partition") == 1).height == 5
    records = frames.batches(timed, bootstrap=tides.bootstrap)
    query = "select partition, sum(cast(cast(value as varchar) as int)) from records group by 1 order by 1"
    assert duckdb.sql(query).fetchall() == [(0, sum(range(10))), (1, sum(range(100, 105)))]
    assert records.schema.names == ALL


def test_a_reader_of_batches_keeps_one_fetch_in_memory(tides):
    topic = create(tides, "large")
    send(tides.bootstrap, topic, [bytes(MIB - 1000)] * 24)
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    small = {"kafka.max.partition.fetch.bytes": str(MIB)}
    for batch in frames.batches(topic, bootstrap=tides.bootstrap, options=small):
        rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert rows == 24
    assert MIB / 2 < most < 6 * MIB


def test_an_invalid_argument_is_named(tides, timed):
    for given, told in [
        ({"start": datetime(2024, 1, 1)}, "start is a time without a time zone"),  # noqa: DTZ001
        ({"start": "yesterday"}, "option 'startingOffsets' is expected as earliest, latest or"),
        ({"end": {0: 1}}, f"option 'endingOffsets': nothing is said of {timed}-1"),
        ({"columns": ["values"]}, "option 'columns': there is no column 'values'"),
        ({"options": {"STARTINGOFFSETS": "latest"}}, "option 'startingoffsets' is given by an argument"),
        ({"options": {"kafka.acks": "1"}}, "kafka.acks"),
    ]:
        with pytest.raises(frames.BadOption, match=told):
            frames.read(timed, bootstrap=tides.bootstrap, **given)
    with pytest.raises(frames.BadOption, match="the cluster has no nowhere"):
        frames.read("nowhere", bootstrap=tides.bootstrap, options={"fetchOffset.retryIntervalMs": "1"})


def test_records_that_are_deleted_while_they_are_read_are_an_error(tides):
    topic = create(tides, "short")
    send(tides.bootstrap, topic, numbers(0, 10))
    records = frames.batches(topic, bootstrap=tides.bootstrap)
    loose = frames.batches(topic, bootstrap=tides.bootstrap, options={"failOnDataLoss": "false"})
    delete_before(tides.bootstrap, topic, 4)
    with pytest.raises(DataLost, match="offsets 0 to 4 were deleted before they were read"):
        records.read_all()
    assert loose.read_all()["value"].to_pylist() == numbers(4, 10)


def test_the_code_of_the_document_runs(tides):
    text = (Path(__file__).parents[2] / "docs" / "frames.md").read_text()
    for name in ("flights", "weather"):
        tides.create_topic(name, 2)
        for partition in (0, 1):
            send(tides.bootstrap, name, numbers(0, 300), partition)
    first, secured, last = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    names = {}
    exec(first.replace("127.0.0.1:9092", tides.bootstrap), names)
    assert names["flights"].num_rows == 600
    exec(last.replace("127.0.0.1:9092", tides.bootstrap), names)
    exec(secured.partition("frames.read")[0], names)
    with pytest.raises(frames.BadOption, match=r"ca\.pem"):
        frames.read("flights", bootstrap=tides.bootstrap, options=names["secured"])
