"""I15, I16 and I47 can be broken: who may join an ISR, by whose proposal, and what a member has."""

import pytest

from tests.sim.checks.support import NAME, REPLICAS, fetches, ghosts, replica, state
from tidelog.partition.leader import Proposal
from tidelog.sim.checks import insync
from tidelog.sim.checks.ghosts import ProposedIsr

BATCHES = ((5, 0), (5, 1))
BEFORE = state(isr=(0, 1))
WISH = ProposedIsr(1, 4, {0: 10, 1: 11, 2: 12})


def leader(**given):
    return replica(0, BATCHES, isr=(0, 1), high_watermark=3, **given)


def propose(*fetched, life=12):
    made = ghosts(BEFORE)
    made.of(NAME).starts[1] = 5
    proposal = Proposal(REPLICAS, {0: 10, 1: 11, 2: life}, 4)
    proposing = leader(proposal=proposal)
    insync.check_proposal(made, proposing, leader().state, fetches(proposing, *fetched), 1)
    return made


def test_a_follower_at_the_epochs_start_may_join():
    assert propose((2, 12, 5, 0)).of(NAME).proposals == [ProposedIsr(1, 4, {0: 10, 1: 11, 2: 12}, 1)]


@pytest.mark.parametrize("fetched", [(2, 12, 4, 0), (2, 11, 10, 1), (1, 11, 10, 1)])
def test_a_follower_that_has_not_reached_the_epochs_start_or_did_in_another_life(fetched):
    with pytest.raises(AssertionError, match=r"^I15:"):
        propose(fetched)


def accept(after, *proposals, version=4, leaving=None):
    made = ghosts(after)
    made.of(NAME).proposals += proposals
    made.leaving.update(leaving or {})
    made.controller_epoch = 1
    insync.check_change(made, NAME, BEFORE, version, None, fetches(leader()), lambda _: False)


def test_a_request_on_just_this_state_is_granted():
    accept(state(), WISH)


@pytest.mark.parametrize("wish", [WISH._replace(leader_epoch=0), WISH._replace(partition_epoch=3)])
def test_a_request_on_another_state_is_not(wish):
    with pytest.raises(AssertionError, match=r"^I16:"):
        accept(state(), wish)


def test_nobody_leaves_who_counts_unless_the_leader_proposes_it():
    with pytest.raises(AssertionError, match=r"^I16:"):
        accept(state(isr=(0,)))


def test_who_joins_is_recorded_with_the_life_that_the_leader_vouches_for():
    with pytest.raises(AssertionError, match=r"^I15:"):
        accept(state(), WISH._replace(members={0: 10, 1: 11, 2: 9}))


def test_nobody_joins_while_it_shuts_down():
    accept(state(), WISH._replace(step=7), leaving={(2, 1): (12, 8)})
    with pytest.raises(AssertionError, match=r"^I15: .*shuts down"):
        accept(state(), WISH._replace(step=9), leaving={(2, 1): (12, 8)})


def committed():
    made = ghosts()
    made.of(NAME).true_high_watermark = 5
    return made


def of_another_topic():
    held = replica(1).partition
    held.log.topic_id = b"E" * 16
    return held


@pytest.mark.parametrize("held", [None, of_another_topic()], ids=["no replica", "of another topic"])
def test_a_member_without_a_replica_of_this_topic(held):
    with pytest.raises(AssertionError, match=r"^I47: broker 1 is in sync "):
        insync.check_held(committed(), NAME, 1, held)


def test_a_member_that_has_its_replica():
    insync.check_held(committed(), NAME, 1, replica(1).partition)


@pytest.mark.parametrize("why", ["nothing is committed", "deleted", "adrift", "dead", "another life", "not a member"])
def test_who_need_not_hold_a_replica(why):
    made = committed()
    if why == "nothing is committed":
        made.of(NAME).true_high_watermark = 0
    elif why == "deleted":
        made.deleting.add("t")
    elif why == "adrift":
        made.of(NAME).rebase_after = 1
    elif why == "dead":
        del made.epochs[1]
    elif why == "another life":
        made.epochs[1] = 77
        made.registered[1, 77] = -1
    else:
        made.states[NAME] = state(isr=(0, 2))
    insync.check_held(made, NAME, 1, None)


def test_a_member_that_ended_cleanly_and_has_lost_its_replica():
    made = committed()
    made.epochs[1], made.registered[1, 77] = 77, 11
    with pytest.raises(AssertionError, match=r"^I47:"):
        insync.check_held(made, NAME, 1, None)
    made.directories = {(1, 11): frozenset({b"one", b"two"}), (1, 77): frozenset({b"one"})}
    insync.check_held(made, NAME, 1, None)
