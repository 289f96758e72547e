"""Answers leave in request order, whatever order they are ready in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.node.connections import Pipeline


@given(st.permutations(range(6)), st.sets(st.integers(0, 5)))
def test_answers_keep_the_order_of_requests(order, silent):
    pipeline = Pipeline()
    slots = [pipeline.open() for _ in range(6)]
    sent = []
    for index in order:
        sent += pipeline.answer(slots[index], None if index in silent else [bytes([index]), b"!"])
    assert sent == [part for index in range(6) if index not in silent for part in (bytes([index]), b"!")]
    assert pipeline.waiting == 0


def test_a_slow_request_holds_back_the_answers_behind_it():
    pipeline = Pipeline()
    slow, quick = pipeline.open(), pipeline.open()
    assert pipeline.answer(quick, [b"quick"]) == []
    assert pipeline.waiting == 2
    assert pipeline.answer(slow, [b"slow"]) == [b"slow", b"quick"]


def test_a_request_is_answered_once():
    pipeline = Pipeline()
    slot = pipeline.open()
    pipeline.open()
    pipeline.answer(slot, [b"x"])
    with pytest.raises(AssertionError):
        pipeline.answer(slot, [b"y"])
