"""The same key meets the same partition whoever wrote it; records without a key spread, a batch at a time."""

import random
import warnings
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.sending.partitioner import Sticky, murmur2, partition_of_key

with warnings.catch_warnings(action="ignore"):  # its import uses a function that Python deprecates
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2


@given(st.binary(max_size=200))
def test_the_hash_is_that_of_other_clients(key):
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"abc", 479470107)],
)
def test_the_hash_is_that_of_kafkas_own_client(key, hashed):
    assert murmur2(key) == hashed & 0xFFFFFFFF


@given(st.binary(max_size=50), st.integers(1, 100))
def test_a_key_has_one_partition(key, partitions):
    assert 0 <= partition_of_key(key, partitions) < partitions
    assert partition_of_key(key, partitions) == partition_of_key(key, partitions)


def sticky(batch_bytes=1_000):
    return Sticky(random.Random(3).randbytes, batch_bytes)


def test_records_stay_together_for_a_batch_and_then_move():
    chosen = sticky()
    places = [chosen.partition("t", 6, range(6), 100) for _ in range(40)]
    runs = [places[start : start + 10] for start in range(0, 40, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(one[0] != other[0] for one, other in pairwise(runs))


def test_a_partition_without_a_leader_is_left():
    chosen = sticky()
    first = chosen.partition("t", 3, [0, 1, 2], 10)
    others = [partition for partition in (0, 1, 2) if partition != first]
    assert chosen.partition("t", 3, others, 10) in others


def test_without_any_leader_some_partition_has_to_do():
    assert sticky().partition("t", 3, [], 10) in (0, 1, 2)


def test_all_partitions_get_their_share():
    chosen = sticky(batch_bytes=100)
    places = [chosen.partition("t", 4, range(4), 100) for _ in range(400)]
    assert all(60 <= places.count(partition) <= 140 for partition in range(4))
