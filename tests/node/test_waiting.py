"""Deferred answers: found by partition, signal and deadline; answered once."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.effects import Committed, Later, Readable, Signal, Synced
from tidelog.model import Time, TopicPartition
from tidelog.node.waiting import Waiting

P = TopicPartition("t", 0)
Q = TopicPartition("t", 1)


def later(*conditions, deadline=1_000):
    return Later(conditions, deadline, lambda *_: None)


def names(waiting):
    return [wait.context for wait in waiting.ready()]


def test_commits_are_answered_in_order_up_to_the_high_watermark():
    waiting = Waiting()
    for offset in (1, 2, 3):
        waiting.add(offset, later(Committed(P, 5, offset)))
    waiting.changed(P, 5, 2, 0)
    assert names(waiting) == [1, 2]
    waiting.changed(P, 5, 3, 0)
    assert names(waiting) == [3]


def test_a_wait_on_two_partitions_needs_both():
    waiting = Waiting()
    waiting.add("both", later(Committed(P, 1, 4), Committed(Q, 1, 9)))
    waiting.changed(P, 1, 4, 0)
    assert names(waiting) == []
    waiting.changed(Q, 1, 9, 0)
    assert names(waiting) == ["both"]


def test_a_new_epoch_and_a_lost_role_answer_everybody_at_once():
    waiting = Waiting()
    waiting.add("old", later(Committed(P, 1, 100), Committed(Q, 1, 100)))
    waiting.changed(P, 2, 0, 0)
    assert names(waiting) == ["old"]
    waiting.add("reader", later(Readable(P)))
    waiting.changed(P, -1, 0, 0)
    assert names(waiting) == ["reader"]


def test_a_signal_wakes_its_key_only():
    waiting = Waiting()
    waiting.add("a", later(Signal(("session", 1))))
    waiting.add("b", later(Signal(("session", 2))))
    waiting.signal(("session", 2))
    assert names(waiting) == ["b"]


def test_deadlines_answer_what_is_left_and_nobody_twice():
    waiting = Waiting()
    waiting.add("soon", later(Committed(P, 1, 5), deadline=10))
    waiting.add("late", later(Committed(P, 1, 6), deadline=20))
    assert waiting.next_deadline == 10
    waiting.wake(Time(10, 0))
    assert names(waiting) == ["soon"]
    assert waiting.next_deadline == 20
    waiting.changed(P, 1, 6, 0)
    assert names(waiting) == ["late"]
    assert waiting.next_deadline is None


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(0, 30))
def test_against_a_naive_twin(offsets, high_watermark):
    waiting = Waiting()
    ascending = sorted(offsets)
    for number, offset in enumerate(ascending):
        waiting.add(number, later(Committed(P, 1, offset)))
    waiting.changed(P, 1, high_watermark, 0)
    assert names(waiting) == [n for n, offset in enumerate(ascending) if offset <= high_watermark]


def test_thousands_of_answered_waits_do_not_pile_up_until_their_deadline():
    waiting = Waiting()
    for offset in range(20_000):
        waiting.add(offset, later(Committed(P, 1, offset), deadline=30_000))
        waiting.changed(P, 1, offset, 0)
        assert names(waiting) == [offset]
    assert len(waiting._deadlines) < 5_000


def test_polls_of_an_idle_partition_do_not_pile_up():
    waiting = Waiting()
    for moment in range(0, 500 * 5_000, 500):
        waiting.add("poll", later(Readable(P), Signal(("session", 7)), deadline=moment + 500))
        waiting.wake(Time(moment + 500, 0))
        assert names(waiting) == ["poll"]
    assert waiting.held < 2_000


def test_who_is_gone_is_not_answered_and_not_kept():
    waiting = Waiting()
    for number in range(5_000):
        wait = waiting.add(number, later(Readable(P), Committed(Q, 1, 9), Synced(Q, 9), deadline=2**31))
        waiting.drop(wait)
    assert waiting.held < 5_000
    waiting.changed(P, 2, 0, 0)
    waiting.changed(Q, 2, 0, 0)
    assert names(waiting) == []


def test_a_wait_that_comes_late_for_a_low_offset_is_not_held_up_by_those_for_higher_ones():
    """A retry of an earlier batch, or a request on two partitions that was bound again after an election."""
    waiting = Waiting()
    waiting.add("fifth", later(Committed(P, 1, 50)))
    waiting.add("first, again", later(Committed(P, 1, 10)))
    waiting.changed(P, 1, 20, 0)
    assert names(waiting) == ["first, again"]
