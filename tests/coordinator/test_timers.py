from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordinator.timers import Timers


def test_the_earliest_deadline_is_due_first():
    timers = Timers()
    timers.set(0, "b", 20, "b")
    timers.set(0, "a", 10, "a")
    assert timers.next_deadline == 10
    assert timers.due(9) == []
    assert timers.due(20) == ["a", "b"]
    assert timers.next_deadline is None


def test_a_postponed_deadline_is_due_once_and_late():
    timers = Timers()
    timers.set(0, "session", 10, "expired")
    for deadline in range(11, 1000):
        timers.set(0, "session", deadline, "expired")
    assert len(timers._heap) == 1, "a heartbeat costs no memory"
    assert timers.due(500) == []
    assert timers.next_deadline == 999
    assert timers.due(999) == ["expired"]


def test_a_deadline_can_be_brought_forward():
    timers = Timers()
    timers.set(0, "k", 100, "late")
    timers.set(0, "k", 10, "early")
    assert timers.due(10) == ["early"]
    assert timers.due(1000) == []


def test_a_group_of_keys_is_cancelled_together():
    timers = Timers()
    timers.set(1, "k", 10, "one")
    timers.set(2, "k", 10, "two")
    timers.cancel_group(1)
    assert timers.deadline(1, "k") is None
    assert timers.due(10) == ["two"]


operations = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 3), st.integers(0, 30)),
        st.tuples(st.just("cancel"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("due"), st.just(0), st.integers(0, 30)),
    )
)


@given(operations)
def test_it_behaves_like_a_plain_table(steps):
    """What is due is what a table of deadlines says, and next_deadline never lies after the earliest."""
    timers, table, now = Timers(), {}, 0
    for kind, key, number in steps:
        if kind == "set":
            table[key] = now + number
            timers.set(0, key, now + number, key)
        elif kind == "cancel":
            table.pop(key, None)
            timers.cancel(0, key)
        else:
            now += number
            expected = sorted(key for key, deadline in table.items() if deadline <= now)
            assert sorted(timers.due(now)) == expected
            table = {key: deadline for key, deadline in table.items() if deadline > now}
        first = timers.next_deadline
        assert (first is None) == (not table)
        assert first is None or first <= min(table.values())
