"""Answers in slices, and what completes them, in any combination of functions and generators."""

import pytest

from tidelog import slices
from tidelog.api.guards import in_turn


def finishing(found, name, *, in_slices):
    def at_once(response):
        found.append((name, response))

    def sliced(response):
        yield
        found.append((name, response))

    return sliced if in_slices else at_once


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_both_finishes_run_to_their_ends(first, second):
    found = []
    finish = in_turn(finishing(found, 1, in_slices=first), finishing(found, 2, in_slices=second))
    assert len(list(finish("answer"))) == first + second
    assert found == [(1, "answer"), (2, "answer")]


def test_one_finish_is_enough():
    found = []
    list(in_turn(finishing(found, 1, in_slices=True), None)("answer"))
    assert found == [(1, "answer")]


def test_items_are_made_in_slices_without_those_that_are_none():
    made = slices.made_of(range(5), lambda number: None if number == 3 else number * 2, 2)
    result, pauses = run(made)
    assert (result, pauses) == ([0, 2, 4, 8], 2)


def test_parts_of_an_answer_may_still_be_made():
    result, pauses = run(slices.all_of([1, slices.made_of("ab", str.upper, 1), 3]))
    assert (result, pauses) == ([1, ["A", "B"], 3], 2)


def test_what_ends_within_its_first_slice_is_no_generator_any_more():
    assert slices.begun(7) == 7
    assert slices.begun(slices.made_of("ab", str.upper)) == ["A", "B"]
    assert run(slices.begun(slices.made_of("abc", str.upper, 1))) == (["A", "B", "C"], 2)


def run(steps):
    """What the generator returns, and how often it pauses from now on."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value, pauses
        pauses += 1
