"""Ranges that join, against a set of numbers."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.log.soundness import Stretches

RANGE = st.tuples(st.integers(0, 30), st.integers(0, 30))


@given(st.lists(RANGE), RANGE)
def test_they_cover_what_was_added(added, asked):
    stretches, naive = Stretches(), set()
    for start, end in added:
        stretches.add(start, end)
        naive |= set(range(start, end))
    start, end = min(asked), max(asked) + 1
    assert stretches.cover(start, end) == naive.issuperset(range(start, end))
    runs = sum(1 for number in naive if number - 1 not in naive)
    assert len(stretches) == runs
