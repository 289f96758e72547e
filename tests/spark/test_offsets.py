"""Offsets of the Spark data source, without Spark: limits of a batch, cutting into tasks, checkpoints, filters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import TopicPartition
from tidelog.spark.reading.offsets import QueryOffset, Span, cut, from_json, limited, spans, to_json

places = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5)),
    st.tuples(st.integers(0, 1000), st.integers(0, 1000)),
    min_size=1,
)
ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


@given(places, st.integers(1, 1500))
def test_a_limit_bounds_the_batch_and_always_makes_progress(found, limit):
    start = {name: first for name, (first, _) in found.items()}
    end = {name: first + more for name, (first, more) in found.items()}
    cut_off = limited(start, end, limit)
    assert all(start[name] <= cut_off[name] <= end[name] for name in end)
    covered = sum(cut_off[name] - start[name] for name in end)
    available = sum(end[name] - start[name] for name in end)
    assert covered <= limit
    assert covered > 0 or available == 0
    assert cut_off == end or available > limit


@given(places, st.none() | st.integers(1, 40), st.none() | st.integers(1, 400))
def test_tasks_cover_what_is_to_be_read_once_and_keep_to_their_size(found, at_least, at_most):
    whole = spans(
        {n: first for n, (first, _) in found.items()}, {n: first + more for n, (first, more) in found.items()}
    )
    tasks = cut(whole, at_least, at_most)
    covered = [(task.name, offset) for task in tasks for offset in range(task.start, task.end)]
    assert covered == [(span.name, offset) for span in whole for offset in range(span.start, span.end)]
    assert all(task.size > 0 and (at_most is None or task.size <= at_most) for task in tasks)
    assert at_least is not None or at_most is not None or tasks == whole


@pytest.mark.parametrize(
    ("sizes", "at_least", "wanted"),
    [
        ([100, 100], 2, [100, 100]),
        ([100, 100], 4, [50, 50, 50, 50]),
        ([10, 1000], 11, [10, *[100] * 10]),
        ([7], 2, [3, 4]),
        ([1], 5, [1]),
        ([], 5, []),
    ],
)
def test_minimum_of_tasks_divides_the_large_ones(sizes, at_least, wanted):
    whole = [Span(TopicPartition("t", number), 5, 5 + size) for number, size in enumerate(sizes)]
    assert [task.size for task in cut(whole, at_least, None)] == wanted


def test_offsets_travel_as_sparks_own_connector_writes_them():
    offsets = {TWO: 5, ONE: 7}
    assert to_json(offsets) == {"t": {"0": 7, "1": 5}}
    assert from_json(to_json(offsets)) == offsets


def test_a_checkpoint_knows_ids_and_epochs_and_one_without_them_is_read_too():
    point = QueryOffset({ONE: 7}, {"t": "abc"}, {ONE: 3})
    assert QueryOffset.from_json(point.to_json()) == point
    assert from_json(point.to_json()) == {ONE: 7}
    assert QueryOffset.from_json({"t": {"0": 7}}) == QueryOffset({ONE: 7})


def test_a_new_leader_alone_is_nothing_new_to_read():
    before = QueryOffset({ONE: 7, TWO: 5}, {"t": "abc"}, {ONE: 3, TWO: 3})
    after = QueryOffset({ONE: 7, TWO: 9}, {"t": "abc"}, {ONE: 4, TWO: 4})
    assert after.moved({ONE: 7, TWO: 5}, before).to_json() == before.to_json()
    assert after.moved({ONE: 7, TWO: 6}, before).epochs == {ONE: 3, TWO: 4}
