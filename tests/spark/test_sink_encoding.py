"""Rows as records, many at a time, beside the encoder and the partitioner that take one after another."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.sending.partitioner import murmur2 as one_by_one
from tidelog.client.sending.partitioner import partition_of_key
from tidelog.model import TopicPartition
from tidelog.spark.writing import encoding, partitioning, task
from tidelog.spark.writing.ledger import LedgerEntry, State, Transaction, decoded
from tidelog.spark.writing.partitioning import Partitioner
from tidelog.spark.writing.rows import _batches, _reach
from tidelog.wire import record_format

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
fields = st.none() | st.binary(max_size=3) | st.integers(60, 20_000).map(bytes)
listed = st.lists(st.tuples(st.text(max_size=70), st.none() | st.binary(max_size=9)), max_size=3)
records = st.lists(st.tuples(fields, fields, st.none() | listed), max_size=30)
everywhere = dict.fromkeys(range(6), 0)


def rows(keys, values, headers=None):
    given = None if headers is None else encoding.headers(pa.array(headers, HEADERS))
    return encoding.Rows(None if keys is None else pa.array(keys, pa.binary()), pa.array(values, pa.binary()), given)


def dictionaries(headers):
    return None if headers is None else [{"key": key, "value": value} for key, value in headers]


@given(records, st.integers(0, 3), st.integers(0, 300))
def test_records_are_those_of_the_encoder_that_takes_one_after_another(content, hidden, first):
    keys, values, headers = (list(column) for column in zip(*content, strict=True)) if content else ([], [], [])
    whole = rows(keys, values, [dictionaries(each) for each in headers])
    shown = encoding.Rows(*(None if column is None else column[hidden:] for column in whole))
    deltas = np.arange(first, first + len(shown.values))
    found = encoding.payload(shown, deltas)
    wanted = [
        record_format.encode(first + place, 0, key, value, each or [])
        for place, (key, value, each) in enumerate(content[hidden:])
    ]
    cut = [bytes(found.data[start:end]) for start, end in pairwise(found.bounds)]
    assert cut == wanted
    assert all(len(record) <= size for record, size in zip(cut, shown.sizes.tolist(), strict=True))


def test_large_offsets_and_lengths_take_all_bytes_of_their_numbers():
    deltas = np.array([0, 63, 64, 8191, 8192, 2**20, 2**31 - 1])
    values = [b"v" * (3 * 2**20)] + [None] * 6
    found = encoding.payload(rows(None, values), deltas)
    wanted = [record_format.encode(int(d), 0, None, v, []) for d, v in zip(deltas, values, strict=True)]
    assert bytes(found.data[: found.bounds[-1]]) == b"".join(wanted)


def test_a_header_without_a_key_is_refused():
    with pytest.raises(ValueError, match="a header has no key"):
        encoding.headers(pa.array([[{"key": None, "value": b"1"}]], HEADERS))


@given(st.lists(st.none() | st.binary(max_size=70), max_size=30), st.integers(0, 3))
def test_keys_are_hashed_as_one_by_one(keys, hidden):
    column = pa.array(keys, pa.binary())[hidden:]
    assert partitioning.murmur2(column).tolist() == [one_by_one(key or b"") for key in keys[hidden:]]


def test_rows_go_where_they_say_then_where_their_key_says():
    keys = [b"a", b"b", None, b"d"]
    place = Partitioner(1_000, ignores_keys=False).place
    named = pa.array([None, 5, 4, None], pa.int32())
    found = place("topic", rows(keys, keys), named, everywhere)
    assert found.tolist() == [partition_of_key(b"a", 6), 5, 4, partition_of_key(b"d", 6)]
    with pytest.raises(ValueError, match="names 6, but topic topic has partitions 0 to 5"):
        place("topic", rows(keys, keys), pa.array([0, 0, 6, 0], pa.int32()), everywhere)


def test_rows_without_keys_stay_together_for_a_batch_and_then_go_elsewhere():
    place = Partitioner(1_000, ignores_keys=False).place
    found = [place("topic", rows(None, [b"v" * 79] * 7), None, everywhere) for _ in range(10)]
    runs = np.concatenate(found)
    changes = np.flatnonzero(np.diff(runs)) + 1
    assert changes.tolist() == list(range(10, 70, 10))  # a row takes 100 bytes at most


def test_rows_without_keys_avoid_partitions_without_leader():
    place = Partitioner(100, ignores_keys=False).place
    led = {0: -1, 1: 7, 2: -1}
    assert set(place("topic", rows(None, [b"v"] * 50), None, led).tolist()) == {1}


def test_keys_may_be_left_alone():
    place = Partitioner(10_000, ignores_keys=True).place
    assert len(set(place("topic", rows([b"%d" % n for n in range(50)], [b"v"] * 50), None, everywhere).tolist())) == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=40), st.integers(1, 100))
def test_batches_are_of_one_partition_and_within_the_limit(content, limit):
    content.sort(key=lambda row: row[0])
    placed, sizes = (np.array(column) for column in zip(*content, strict=True))
    batches = list(_batches(placed, sizes, limit))
    assert [row for batch in batches for row in range(batch.start, batch.end)] == list(range(len(content)))
    for batch in batches:
        assert set(placed[batch.start : batch.end].tolist()) == {batch.partition}
        assert batch.end - batch.start == 1 or sizes[batch.start : batch.end].sum() <= limit
    for one, other in pairwise(batches):
        assert one.partition != other.partition or sizes[one.start : other.start + 1].sum() > limit
    assert _reach(np.cumsum(sizes), 0, 1) >= 1


def test_an_entry_is_what_was_written():
    one = Transaction("id", 7, 3, 2, {TopicPartition("topic", 1): 40, TopicPartition("a", 0): -1})
    entry = LedgerEntry(5, State.DECIDED, (one, Transaction("other", 8, 0, 0, {})))
    assert decoded(entry.encoded()) == entry
    assert entry.without([one, one._replace(epoch=4)]) == [one._replace(epoch=4)]
    with pytest.raises(ValueError, match="format 2, this is 1: a newer Tidelog wrote it"):
        decoded(entry.encoded().replace(b'"format":1', b'"format":2'))


def test_an_id_is_taken_again_only_in_a_later_batch():
    first, is_new = task.take_transactional_id("query a", 0)
    second, _ = task.take_transactional_id("query a", 0)
    assert is_new
    assert first != second
    assert task.take_transactional_id("query a", 1) == (first, False)
    assert task.take_transactional_id("query a", 1) == (second, False)
    third, is_new = task.take_transactional_id("query a", 1)
    assert is_new
    assert third not in (first, second)
    assert task.take_transactional_id("query b", 1)[0] not in (first, second, third)
