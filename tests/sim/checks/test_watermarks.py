"""I1, I6, I7 and I8 can be broken, and only they are named."""

import pytest

from tests.sim.checks.support import NAME, REPLICAS, fetches, ghosts, replica, state
from tidelog.partition.leader import Proposal
from tidelog.sim.checks import watermarks

BATCHES = ((5, 1), (5, 1))
ALL_THERE = ((1, 11, 10, 1), (2, 12, 10, 1))


def judge(leader, before, *fetched, tree=None):
    watermarks.check(ghosts(tree), leader, before, fetches(leader, *fetched))


def leader(high_watermark=10, isr=REPLICAS, **numbers):
    return replica(0, BATCHES, high_watermark=high_watermark, isr=isr, **numbers)


def test_a_watermark_that_all_have_fetched_past_is_right():
    judge(leader(), leader(5).state, *ALL_THERE)


@pytest.mark.parametrize("numbers", [{"high_watermark": 11}, {"start": 11}, {"recovery_point": 11}])
def test_marks_out_of_order(numbers):
    with pytest.raises(AssertionError, match=r"^I1:"):
        judge(leader(**numbers), leader().state, *ALL_THERE)


def test_a_watermark_that_descends():
    with pytest.raises(AssertionError, match=r"^I6:"):
        judge(leader(5), leader(10).state, *ALL_THERE)


@pytest.mark.parametrize(
    "fetched",
    [
        (ALL_THERE[0],),
        (ALL_THERE[0], (2, 12, 9, 1)),
        (ALL_THERE[0], (2, 11, 10, 1)),
        (ALL_THERE[0], (2, 12, 10, 0)),
    ],
    ids=["not at all", "not so far", "in an earlier life", "with another log"],
)
def test_a_watermark_past_what_a_member_has_fetched(fetched):
    with pytest.raises(AssertionError, match=r"^I7:"):
        judge(leader(), leader(5).state, *fetched)


def test_a_life_that_ended_cleanly_left_what_it_had_fetched():
    given = ghosts()
    given.registered[2, 12] = 11
    assert given.lives_up_to(2, 12) == {12, 11}
    alone = leader()
    watermarks.check(given, alone, leader(5).state, fetches(alone, ALL_THERE[0], (2, 11, 10, 1)))


def test_an_isr_that_came_and_went_within_a_step():
    before, after = leader(5, partition_epoch=5).state, leader(isr=(0,), partition_epoch=7)
    given = ghosts(state(isr=(0,)))
    with pytest.raises(AssertionError, match=r"^I7:"):
        watermarks.check(given, after, before, fetches(after, ALL_THERE[0]))
    given.of(NAME).isrs[1, 6] = state(isr=(0, 1))
    watermarks.check(given, after, before, fetches(after, ALL_THERE[0]))
    with pytest.raises(AssertionError, match=r"^I7:"):
        watermarks.check(given, after, before, fetches(after, (1, 11, 9, 1)))


def test_a_watermark_past_whoever_is_proposed_to_join():
    joining = Proposal(REPLICAS, {0: 10, 1: 11, 2: 12}, 5)
    small = state(isr=(0, 1))
    narrow = leader(isr=(0, 1), proposal=joining)
    with pytest.raises(AssertionError, match=r"^I7:"):
        judge(narrow, leader(5, isr=(0, 1), proposal=joining).state, ALL_THERE[0], tree=small)


def test_a_watermark_that_moves_below_min_isr():
    with pytest.raises(AssertionError, match=r"^I7: .*below min"):
        judge(leader(isr=(0,)), leader(5, isr=(0,)).state, tree=state(isr=(0,)))


def test_a_watermark_that_moves_on_becoming_leader():
    with pytest.raises(AssertionError, match=r"^I7:"):
        judge(leader(), replica(0, BATCHES, high_watermark=5, epoch=0).state)


def test_a_leader_that_does_not_count_a_member():
    with pytest.raises(AssertionError, match=r"^I8:"):
        judge(leader(isr=(0, 1)), leader(isr=(0, 1)).state, *ALL_THERE)


def test_a_maximal_isr_that_is_not_what_it_should_be():
    with pytest.raises(AssertionError, match=r"^I8:"):
        judge(leader(maximal_isr=frozenset({0, 1})), leader().state, *ALL_THERE)
