"""Deferred answers: found by partition, signal and deadline; answered once."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.effects import Committed, Deferred, Readable, Signal, Synced
from tidelog.model import Time, TopicPartition
from tidelog.node.purgatory import Purgatory

P = TopicPartition("t", 0)
Q = TopicPartition("t", 1)


def later(*conditions, deadline=1_000):
    return Deferred(conditions, deadline, lambda *_: None)


def names(purgatory):
    return [wait.context for wait in purgatory.ready()]


def test_commits_are_answered_in_order_up_to_the_high_watermark():
    purgatory = Purgatory()
    for offset in (1, 2, 3):
        purgatory.add(offset, later(Committed(P, 5, offset)))
    purgatory.changed(P, 5, 2, 0)
    assert names(purgatory) == [1, 2]
    purgatory.changed(P, 5, 3, 0)
    assert names(purgatory) == [3]


def test_a_wait_on_two_partitions_needs_both():
    purgatory = Purgatory()
    purgatory.add("both", later(Committed(P, 1, 4), Committed(Q, 1, 9)))
    purgatory.changed(P, 1, 4, 0)
    assert names(purgatory) == []
    purgatory.changed(Q, 1, 9, 0)
    assert names(purgatory) == ["both"]


def test_a_new_epoch_and_a_lost_role_answer_everybody_at_once():
    purgatory = Purgatory()
    purgatory.add("old", later(Committed(P, 1, 100), Committed(Q, 1, 100)))
    purgatory.changed(P, 2, 0, 0)
    assert names(purgatory) == ["old"]
    purgatory.add("reader", later(Readable(P)))
    purgatory.changed(P, -1, 0, 0)
    assert names(purgatory) == ["reader"]


def test_a_signal_wakes_its_key_only():
    purgatory = Purgatory()
    purgatory.add("a", later(Signal(("session", 1))))
    purgatory.add("b", later(Signal(("session", 2))))
    purgatory.signal(("session", 2))
    assert names(purgatory) == ["b"]


def test_deadlines_answer_what_is_left_and_nobody_twice():
    purgatory = Purgatory()
    purgatory.add("soon", later(Committed(P, 1, 5), deadline=10))
    purgatory.add("late", later(Committed(P, 1, 6), deadline=20))
    assert purgatory.next_deadline == 10
    purgatory.wake(Time(10, 0))
    assert names(purgatory) == ["soon"]
    assert purgatory.next_deadline == 20
    purgatory.changed(P, 1, 6, 0)
    assert names(purgatory) == ["late"]
    assert purgatory.next_deadline is None


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(0, 30))
def test_against_a_naive_twin(offsets, high_watermark):
    purgatory = Purgatory()
    ascending = sorted(offsets)
    for number, offset in enumerate(ascending):
        purgatory.add(number, later(Committed(P, 1, offset)))
    purgatory.changed(P, 1, high_watermark, 0)
    assert names(purgatory) == [n for n, offset in enumerate(ascending) if offset <= high_watermark]


def test_thousands_of_answered_waits_do_not_pile_up_until_their_deadline():
    purgatory = Purgatory()
    for offset in range(20_000):
        purgatory.add(offset, later(Committed(P, 1, offset), deadline=30_000))
        purgatory.changed(P, 1, offset, 0)
        assert names(purgatory) == [offset]
    assert len(purgatory._deadlines) < 5_000


def test_polls_of_an_idle_partition_do_not_pile_up():
    purgatory = Purgatory()
    for moment in range(0, 500 * 5_000, 500):
        purgatory.add("poll", later(Readable(P), Signal(("session", 7)), deadline=moment + 500))
        purgatory.wake(Time(moment + 500, 0))
        assert names(purgatory) == ["poll"]
    assert purgatory.held < 2_000


def test_who_is_gone_is_not_answered_and_not_kept():
    purgatory = Purgatory()
    for number in range(5_000):
        wait = purgatory.add(number, later(Readable(P), Committed(Q, 1, 9), Synced(Q, 9), deadline=2**31))
        purgatory.drop(wait)
    assert purgatory.held < 5_000
    purgatory.changed(P, 2, 0, 0)
    purgatory.changed(Q, 2, 0, 0)
    assert names(purgatory) == []


def test_a_wait_that_comes_late_for_a_low_offset_is_not_held_up_by_those_for_higher_ones():
    """A retry of an earlier batch, or a request on two partitions that was bound again after an election."""
    purgatory = Purgatory()
    purgatory.add("fifth", later(Committed(P, 1, 50)))
    purgatory.add("first, again", later(Committed(P, 1, 10)))
    purgatory.changed(P, 1, 20, 0)
    assert names(purgatory) == ["first, again"]
