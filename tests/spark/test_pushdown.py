"""Filters that become ranges: what each kind bounds, and that a batch with them reads the same rows and less."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as f

from tests.spark.records import create, numbers, send
from tidelog.client.offset_lookups import FoundOffset
from tidelog.model import TopicPartition
from tidelog.spark.reading.batch import bounds_of
from tidelog.spark.reading.offsets import Span

ONE, TWO = TopicPartition("a", 0), TopicPartition("b", 1)
WHOLE = [Span(ONE, 0, 100), Span(TWO, 50, 60)]
MOMENT = datetime(2023, 11, 14, tzinfo=UTC)
MS = int(MOMENT.timestamp() * 1000)


class Times:
    """A cluster whose record at offset n has the time MS + n; the second partition has none so young."""

    def found(self, wanted):
        return {name: FoundOffset(max(time - MS, 0) if name == ONE else -1) for name, time in wanted.items()}


def left_of(*filters):
    bounds, left = bounds_of(filters)
    return [(span.name, span.start, span.end) for span in bounds.within(WHOLE, Times())], left


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ([f.EqualTo(("topic",), "a")], [(ONE, 0, 100)]),
        ([f.In(("topic",), ("b", "c"))], [(TWO, 50, 60)]),
        ([f.EqualNullSafe(("partition",), 1)], [(TWO, 50, 60)]),
        ([f.GreaterThan(("partition",), 0)], [(TWO, 50, 60)]),
        ([f.LessThan(("partition",), 1)], [(ONE, 0, 100)]),
        ([f.LessThanOrEqual(("partition",), -1)], []),
        ([f.GreaterThanOrEqual(("partition",), 0), f.In(("partition",), (0, 7))], [(ONE, 0, 100)]),
        ([f.EqualTo(("offset",), 55)], [(ONE, 55, 56), (TWO, 55, 56)]),
        ([f.GreaterThan(("offset",), 57), f.LessThanOrEqual(("offset",), 58)], [(ONE, 58, 59), (TWO, 58, 59)]),
        ([f.GreaterThanOrEqual(("offset",), 99), f.LessThan(("offset",), 500)], [(ONE, 99, 100)]),
        ([f.LessThan(("offset",), -3)], []),
        ([f.EqualTo(("offset",), -3)], []),
        ([f.IsNotNull(("offset",)), f.IsNotNull(("topic",))], [(ONE, 0, 100), (TWO, 50, 60)]),
    ],
)
def test_comparisons_of_topic_partition_and_offset_are_exact(filters, wanted):
    assert left_of(*filters) == (wanted, [])


@pytest.mark.parametrize(
    ("kind", "after", "first"),
    [
        (f.GreaterThanOrEqual, timedelta(milliseconds=7), 7),
        (f.GreaterThan, timedelta(milliseconds=7), 7),
        (f.EqualTo, timedelta(microseconds=7_001), 8),
        (f.EqualNullSafe, timedelta(0), 0),
    ],
)
def test_a_time_says_from_where_on_and_spark_filters_the_rest(kind, after, first):
    each = kind(("timestamp",), MOMENT + after)
    assert left_of(each) == ([(ONE, first, 100)], [each])


@pytest.mark.parametrize(
    "each",
    [
        f.LessThan(("timestamp",), MOMENT),
        f.Not(f.EqualTo(("partition",), 0)),
        f.EqualTo(("value",), b"x"),
        f.IsNull(("partition",)),
        f.StringStartsWith(("topic",), "a"),
        f.In(("offset",), (1, 2)),
        f.EqualTo(("headers", "key"), "k"),
        f.EqualNullSafe(("partition",), None),
    ],
)
def test_what_bounds_nothing_is_left_to_spark(each):
    assert left_of(each) == ([(ONE, 0, 100), (TWO, 50, 60)], [each])


KINDS = (f.EqualTo, f.GreaterThan, f.GreaterThanOrEqual, f.LessThan, f.LessThanOrEqual)
HOLDS = ("__eq__", "__gt__", "__ge__", "__lt__", "__le__")


@given(
    st.lists(
        st.tuples(st.sampled_from(range(5)), st.sampled_from(["offset", "partition"]), st.integers(-2, 110)), max_size=4
    )
)
def test_any_comparisons_leave_the_offsets_for_which_all_hold(chosen):
    spans, left = left_of(*(KINDS[kind]((column,), value) for kind, column, value in chosen))
    found = {(name, offset) for name, start, end in spans for offset in range(start, end)}
    every = [(span.name, offset) for span in WHOLE for offset in range(span.start, span.end)]

    def holds(name, offset):
        values = {"offset": offset, "partition": name.partition}
        return all(getattr(values[column], HOLDS[kind])(value) for kind, column, value in chosen)

    assert (found, left) == ({place for place in every if holds(*place)}, [])


def test_a_batch_with_filters_reads_the_same_rows_in_fewer_tasks(spark, conf, tides):
    topic = create(tides, "pushed", 4)
    for partition in range(4):
        for n in range(10):
            send(tides.bootstrap, topic, numbers(n, n + 1), partition, timestamp=MS + n)
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", tides.bootstrap)
    frame = reader.option("subscribe", topic).load()
    wanted = (
        "partition in (1, 3) and offset >= 4 and offset < 9 "
        f"and timestamp > timestamp'2023-11-14 00:00:00.005' and topic = '{topic}'"
    )
    found = []
    for enabled in ("false", "true"):
        conf("spark.sql.python.filterPushdown.enabled", enabled)
        filtered = frame.where(wanted)
        found.append((sorted(filtered.collect()), filtered.rdd.getNumPartitions()))
    (rows, tasks), (pushed_rows, pushed_tasks) = found
    assert sorted((row.partition, row.offset) for row in rows) == [(p, n) for p in (1, 3) for n in (6, 7, 8)]
    assert pushed_rows == rows
    assert (tasks, pushed_tasks) == (4, 2)
