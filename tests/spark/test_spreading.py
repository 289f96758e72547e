"""Which pieces of logs one task takes."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.audit_session import OPENING_BYTES, TASK_BYTES, TASKS_PER_CORE, spread


@given(st.lists(st.integers(0, 4 * TASK_BYTES), max_size=80), st.integers(1, 8))
def test_every_piece_is_in_one_task_and_no_task_has_much_more_than_its_share(sizes, cores):
    found = spread(sizes, cores)
    assert sorted(place for own in found for place in own) == list(range(len(sizes)))
    assert all(found)
    loads = [sum(sizes[place] + OPENING_BYTES for place in own) for own in found]
    if loads:
        assert max(loads) <= sum(loads) / len(loads) + max(sizes) + OPENING_BYTES


def test_many_small_pieces_share_few_tasks():
    assert len(spread([10] * 3_000, 2)) == 2 * TASKS_PER_CORE
    assert len(spread([TASK_BYTES] * 30, 2)) > 29
