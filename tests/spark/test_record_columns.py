"""Columns are what records are, one by one; and what is no record is refused by both."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tidelog.client.fetcher import FetchedBatches
from tidelog.errors import ApiError
from tidelog.model import TopicPartition
from tidelog.spark.reading import task
from tidelog.spark.reading.record_columns import LANES, Batch, binary_array, columns, headers
from tidelog.wire import record_format, records
from tidelog.wire.records import HEADER_BYTES, Record

BYTES = some.none() | some.binary(max_size=40) | some.binary(min_size=120, max_size=140)
RECORDS = some.lists(
    some.builds(
        Record,
        some.just(0),
        some.integers(1_000_000, 2_000_000) | some.integers(0, 2**45),
        BYTES,
        BYTES,
        some.lists(some.tuples(some.text(max_size=3), BYTES), max_size=2),
    ),
    min_size=1,
    max_size=30,
)


def batch_of(raw, header):
    fixed = header.max_timestamp if header.is_log_append_time else None
    start = header.position + HEADER_BYTES
    return Batch(start, header.end, header.count, header.base_offset, header.base_timestamp, fixed)


def decoded(raw):
    found = columns(raw, [batch_of(raw, header) for header in records.batches(raw)])
    keys, values = binary_array(raw, found.keys).to_pylist(), binary_array(raw, found.values).to_pylist()
    listed = [[(each["key"], each["value"]) for each in row or ()] for row in headers(raw, found).to_pylist()]
    return list(zip(found.offsets.tolist(), found.timestamps.tolist(), keys, values, listed, strict=True))


def one_by_one(raw):
    each = chain.from_iterable(records.records(raw, header) for header in records.batches(raw))
    return [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in each]


@given(some.lists(RECORDS, min_size=1, max_size=4), some.integers(0, 2**40))
def test_any_batches(content, offset):
    raw = b"".join(records.build(batch, base_offset=offset + 100 * n) for n, batch in enumerate(content))
    assert decoded(raw) == one_by_one(raw)


@settings(max_examples=10, deadline=None)
@given(some.lists(RECORDS, min_size=1, max_size=3), some.randoms(use_true_random=False))
def test_many_batches_are_read_side_by_side(content, random):
    chosen = [random.choice(content) for _ in range(LANES)]
    raw = b"".join(records.build(batch, base_offset=100 * n) for n, batch in enumerate(chosen))
    assert decoded(raw) == one_by_one(raw)


@pytest.mark.parametrize("sizes", [[100] * 300, [100] * 20 + [7] * 3 + [100] * 40, [0] * 200, [9, 10] * 40])
def test_runs_of_one_length(sizes):
    content = [Record(0, 5 + n, None, b"x" * size) for n, size in enumerate(sizes)]
    raw = records.build(content, base_offset=7)
    assert decoded(raw) == one_by_one(raw)


def test_the_brokers_time_stands_over_the_records_own():
    raw = bytearray(records.build([Record(0, 5, None, b"a"), Record(0, 9, None, b"b")]))
    records.stamp_log_append_time(raw, records.header(raw), 77)
    assert [row[1] for row in decoded(bytes(raw))] == [77, 77]


def test_a_mask_leaves_the_others():
    raw = records.build([Record(0, n, b"k%d" % n, b"v%d" % n) for n in range(5)], base_offset=10)
    found = columns(raw, [batch_of(raw, records.header(raw))])
    kept = found.only(found.offsets >= 13)
    assert binary_array(raw, kept.values).to_pylist() == [b"v3", b"v4"]
    assert kept.timestamps.tolist() == [3, 4]
    assert found.only(np.ones(5, bool)) is found


def test_no_batches_are_no_records():
    assert len(columns(b"", []).offsets) == 0


@settings(max_examples=150, deadline=None)
@given(RECORDS, some.data(), some.booleans())
def test_what_is_no_record_is_refused_or_read_alike(content, data, many):
    """The same bytes are broken for both."""
    whole = bytearray(records.build(content))
    place = data.draw(some.integers(HEADER_BYTES, len(whole) - 1))
    whole[place] ^= data.draw(some.integers(1, 255))
    raw = bytes(whole) * (LANES if many else 1)
    header = records.header(raw)
    batches = [batch_of(raw, each) for each in records.batches(raw)]
    try:
        expected = [(r.offset, r.key, r.value) for r in record_format.decode(raw[HEADER_BYTES : header.end], header.count, 0, 0, None)]  # fmt: skip
    except ApiError:
        expected = None
    if expected is None:
        with pytest.raises(ApiError):
            headers(raw, columns(raw, batches))
        return
    found = columns(raw, batches)
    assert len(headers(raw, found)) == len(found.offsets)
    keys, values = binary_array(raw, found.keys).to_pylist(), binary_array(raw, found.values).to_pylist()
    assert list(zip(found.offsets.tolist(), keys, values, strict=True))[: len(expected)] == expected


@pytest.mark.parametrize("at_once", [1, 2_500, 10_000_000])
def test_what_inflates_to_much_becomes_several_tables(monkeypatch, at_once):
    """A few kilobytes of fetched data may inflate to gigabytes."""
    monkeypatch.setattr(task, "INFLATED_AT_ONCE", at_once)
    raw = b"".join(
        records.build([Record(0, 1, b"k", b"%d" % number * 1000)], base_offset=number, compression=1)
        for number in range(6)
    )
    fetched = FetchedBatches(TopicPartition("t", 0), 0, raw, list(records.batches(raw)))
    tables = [columns(data, places) for data, places in task._payloads(fetched)]
    assert [offset for found in tables for offset in found.offsets.tolist()] == list(range(6))
    assert len(tables) == {1: 6, 2_500: 2, 10_000_000: 1}[at_once]
