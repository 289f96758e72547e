"""Answers with thousands of entries to requests of a few bytes: made in slices, with other connections in between.

A turn is measured in messages that it makes, a number that is the same on every machine; `large_answers` prints what
turns take.
"""

import sys

import pytest

from tests.node import large_answers
from tests.node.largest import led
from tidelog.node import large_requests

ENTRIES = 20_000
MOST_MADE = 8_000
"""Messages in one turn, which is a slice of a thousand entries, or the first slices of what makes the answer."""
MOST_ENCODED = 2_000
"""Entries: some are encoded together with those that they contain."""


@pytest.fixture(scope="module")
def broker():
    """Each turn has one step."""
    found = led()
    found.work_ns = large_requests.SLICE_NS + 1
    large_answers.fill(found, ENTRIES)
    return found


def messages_made():
    count = 0

    def called(frame, event, _argument):
        nonlocal count
        count += event == "call" and frame.f_code.co_name == "__init__"

    def ended():
        sys.setprofile(None)
        return count

    sys.setprofile(called)
    return ended


@pytest.mark.parametrize("name", large_answers.REQUESTS)
def test_no_turn_makes_more_than_a_slice_of_an_answer(broker, name):
    costs = list(large_answers.turns(broker, name, messages_made))
    assert max(costs) <= MOST_MADE
    assert sum(costs) > MOST_MADE or name in large_answers.FEW
    assert len(costs) > sum(costs) // MOST_ENCODED
