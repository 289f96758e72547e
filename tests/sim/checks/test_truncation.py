"""I20 can be broken: where a cut came from, when, and how deep it goes."""

import pytest

from tests.sim.checks.support import NAME, ghosts, replica, state
from tidelog.sim.checks import losses, truncation
from tidelog.sim.checks.wire.said import Source

LEADER = Source(0, 1)


def cut(to, source=LEADER, *, told=5, isr=(0, 1), appended_in=0, newest=0):
    made = ghosts(state(isr=isr))
    made.of(NAME).true_high_watermark = told
    follower = replica(1, ((5, 0), (5, newest)))
    follower.appended_in = appended_in
    truncation.check(made, follower, follower.cut(to), source)


def test_a_cut_at_the_word_of_the_epochs_leader():
    cut(5)


def test_a_cut_below_what_is_committed_is_for_those_who_are_out_of_sync():
    cut(0, isr=(0, 2))
    with pytest.raises(AssertionError, match=r"^I20: .*below TrueHW 5"):
        cut(0)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"source": None}, "without a word"),
        ({"source": Source(2, 0)}, "in epoch 0"),
        ({"newest": 1}, "in this very epoch"),
        ({"appended_in": 1}, "after its first append"),
    ],
)
def test_cuts_that_must_not_be(given, why):
    with pytest.raises(AssertionError, match=rf"^I20: .*{why}"):
        cut(5, **given)


def test_after_a_loss_that_is_allowed_nobody_knows_what_was_committed():
    made = ghosts(state(isr=(0, 1)))
    made.of(NAME).true_high_watermark = 5
    losses.allow(made, NAME, "for this test")
    follower = replica(1, ((5, 0), (5, 0)))
    truncation.check(made, follower, follower.cut(0), LEADER)


def test_who_starts_over_where_its_leader_begins_gives_up_only_what_lies_behind():
    """What its leader has deleted was committed; what the two differ in lies behind it (seed 7003055)."""
    made = ghosts(state(isr=(0, 1)))
    made.of(NAME).true_high_watermark = 5
    follower = replica(1, ((5, 0), (6, 0)))
    gone = follower.cut(0)
    follower.partition.log.log_start_offset = 5
    truncation.check(made, follower, gone, LEADER)
    made.of(NAME).true_high_watermark = 6
    with pytest.raises(AssertionError, match=r"^I20: .*below TrueHW 6"):
        truncation.check(made, follower, gone, LEADER)
