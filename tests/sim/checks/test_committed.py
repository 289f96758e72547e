"""I4, I5, I9 and I10 can be broken; after a loss that is allowed they hold the cluster to what the new leader has."""

import pytest

from tests.sim.checks.support import NAME, REPLICAS, append, ghosts, replica, state
from tidelog.sim.checks import committed
from tidelog.sim.checks.ghosts import Acked

LOG = ((5, 1), (5, 1))
OTHER = ((5, 1), (5, 1, 77))


def judge(made, one, before=None, others=()):
    committed.check(made, one, before, lambda _: others, cut=False)


def known(told=10, tree=None, **given):
    """A cluster whose leader has committed this much."""
    made = ghosts(tree, **given)
    judge(made, replica(0, LOG, isr=(0, 1, 2), high_watermark=told))
    assert made.of(NAME).true_high_watermark == told
    return made


def test_replicas_that_agree():
    made = known()
    for broker in (1, 2):
        judge(made, replica(broker, LOG))


def test_what_is_committed_begins_where_the_log_of_a_leader_does():
    """Of a compacted log nothing is known below: seed 101013."""
    made, leader = known(5), replica(0, LOG, isr=(0, 1, 2))
    leader.log.skip_to(10)
    judge(made, leader)
    assert (made.of(NAME).committed.first_offset, made.of(NAME).committed.end) == (10, 10)
    judge(made, replica(1, LOG))


def test_another_record_below_the_watermark():
    with pytest.raises(AssertionError, match=r"^I4:"):
        judge(known(), replica(1, OTHER))


def test_a_leader_that_replaces_what_was_committed():
    with pytest.raises(AssertionError, match=r"^I5: .*replaces"):
        committed.commit(known(5).of(NAME), replica(1, ((5, 1, 77), (5, 1)), isr=(1, 2)))


def test_a_leader_past_its_epochs_start_but_below_what_was_told():
    made = known()
    with pytest.raises(AssertionError, match=r"^I5: .*below TrueHW"):
        judge(made, replica(0, LOG, isr=(0, 1, 2), high_watermark=5))


def test_a_member_that_ends_too_early_or_differs():
    made = known()
    with pytest.raises(AssertionError, match=r"^I9: .*ends below"):
        judge(made, replica(1, LOG[:1]))
    with pytest.raises(AssertionError, match=r"^I9: .*differs"):
        judge(made, replica(1, OTHER, high_watermark=5))
    judge(known(tree=state(isr=(0, 2))), replica(1, LOG[:1]))


def test_a_member_that_took_no_step_while_the_watermark_moved():
    made, late = ghosts(), replica(1, LOG[:1])
    with pytest.raises(AssertionError, match=r"^I9:"):
        judge(made, replica(0, LOG, isr=(0, 1, 2)), others=[late])


def test_a_member_that_registered_as_cleanly_shut_down_counts():
    made = known(lives={0: 10, 1: 21, 2: 12})
    judge(made, replica(1, LOG[:1]))
    made.registered[1, 21] = 11
    with pytest.raises(AssertionError, match=r"^I9:"):
        judge(made, replica(1, LOG[:1]))


@pytest.mark.parametrize("log", [LOG[:1], OTHER])
def test_a_new_leader_without_an_acknowledged_record(log):
    made = known(5)
    made.of(NAME).acked[5] = Acked(5, 10, 1005)
    with pytest.raises(AssertionError, match=r"^I10:"):
        judge(made, replica(0, log, isr=(0, 1, 2), high_watermark=5))


# Loss.


def test_a_broker_that_lost_data_is_judged_once_it_is_back_in_sync():
    made = known(tree=state(isr=(0, 2)))
    made.lost_power(1)
    judge(made, replica(1, OTHER))
    made.states[NAME] = state()
    with pytest.raises(AssertionError, match=r"^I4:"):
        judge(made, replica(1, OTHER))


def test_as_many_crashes_as_min_allows_and_one_more():
    made = known()
    made.lost_power(1)
    assert not made.of(NAME).loss_allowed
    made.lost_power(2)
    assert made.of(NAME).awaits_rebase


def test_the_last_member_below_min():
    made = known(tree=state(isr=(0,)))
    made.lost_power(0)
    assert made.of(NAME).awaits_rebase


def test_whoever_is_back_in_sync_has_all_of_it_again():
    made = known()
    made.lost_power(1)
    made.epochs[1] = 21
    made.forgive_loss(NAME)
    assert made.of(NAME).lossy == {1}
    made.states[NAME] = state(epochs=(10, 21, 12))
    made.forgive_loss(NAME)
    made.lost_power(2)
    assert not made.of(NAME).awaits_rebase


def test_nothing_was_lost_where_all_came_back_under_the_same_leader():
    made = known()
    made.lost_power(1)
    made.lost_power(2)
    made.epochs = {0: 10, 1: 21, 2: 22}
    made.registered.update({(1, 21): -1, (2, 22): -1})
    made.states[NAME] = state(epochs=(10, 21, 22))
    made.forgive_loss(NAME)
    assert not made.of(NAME).awaits_rebase
    with pytest.raises(AssertionError, match=r"^I4:"):
        judge(made, replica(1, OTHER))


def lost(assigned=REPLICAS):
    """A new leader in epoch 2, alone in sync, without the last batch."""
    made = known()
    made.assignments[NAME] = assigned
    ghost = made.of(NAME)
    ghost.acked = {0: Acked(0, 5, 1000), 5: Acked(5, 10, 1005)}
    made.allow_loss(NAME, "for this test")
    judge(made, replica(1, OTHER))
    made.states[NAME] = state(1, 2, (1,))
    ghost.leaders[2], ghost.starts[2] = 1, 5
    judge(made, replica(1, LOG[:1], epoch=2, isr=(1,)))
    return made


def test_after_a_loss_the_new_leaders_log_is_what_counts():
    ghost = lost().of(NAME)
    assert (ghost.true_high_watermark, ghost.losses, ghost.awaits_rebase) == (5, 1, False)
    assert ghost.acked == {0: Acked(0, 5, 1000)}
    assert ghost.loss_allowed


def test_after_a_loss_the_others_are_judged_once_they_are_back_in_sync():
    made = lost()
    judge(made, replica(0, LOG))
    made.states[NAME] = state(1, 2, (1, 0))
    with pytest.raises(AssertionError, match=r"^I4:"):
        judge(made, replica(0, ((5, 1, 77),), epoch=2))


def test_after_a_loss_who_was_a_replica_once_proves_nothing_by_its_old_log():
    """Seed 5002626: it was away while a reassignment and an unclean election did without it."""
    made = lost(assigned=(1,))
    judge(made, replica(0, ((5, 1, 77),)))


def test_after_a_loss_the_new_leader_is_held_to_its_word():
    made = lost()
    with pytest.raises(AssertionError, match=r"^I10:"):
        judge(made, replica(1, (), epoch=2, isr=(1,)))


# What cannot be read any more.


def test_logs_are_compared_from_where_both_can_be_read():
    made, late = known(), replica(1, LOG)
    late.log.skip_to(5)
    append(late, LOG[1])
    judge(made, late)
    late.log.skip_to(5)
    append(late, OTHER[1])
    with pytest.raises(AssertionError, match=r"^I4:"):
        judge(made, late)


def test_what_a_leader_commits_goes_on_from_what_it_can_read():
    made, leader = known(5), replica(0, LOG, isr=(0, 1, 2))
    leader.log.skip_to(5)
    append(leader, LOG[1])
    judge(made, leader)
    judge(made, replica(1, LOG))
