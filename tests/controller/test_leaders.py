"""Rule 8 against a twin that is written from the rule's words, over all small worlds that Hypothesis finds."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.leaders import (
    UNCHANGED,
    Election,
    Life,
    counts,
    elect,
    elect_by_logs,
    elect_preferred,
    first_state,
)
from tidelog.controller.tree import LeadershipState

EPOCHS = st.integers(0, 3)


@st.composite
def worlds(draw):
    """(state, replicas, lives, offline) with few brokers and few epochs, so that epochs meet."""
    replicas = tuple(draw(st.permutations(range(draw(st.integers(1, 4))))))
    isr = tuple(draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True)))
    epochs = tuple(draw(EPOCHS) for _ in isr)
    leader = draw(st.sampled_from((*isr, -1)))
    lives = {
        broker: Life(
            epoch, draw(st.integers(-1, 3)), draw(st.booleans()), directories_since=draw(st.integers(-1, epoch))
        )
        for broker, epoch in ((broker, draw(EPOCHS)) for broker in replicas)
        if draw(st.booleans())
    }
    offline = frozenset(broker for broker in lives if draw(st.integers(0, 4)) == 0)
    return LeadershipState(leader, 5, isr, epochs, 1), replicas, lives, offline


def twin(state, replicas, lives, offline):
    """(leader or None for unchanged leadership, ISR, who must be asked)."""
    recorded = dict(zip(state.isr, state.isr_epochs, strict=True))
    alive = [broker for broker in lives if broker not in offline]
    whole = [b for b in recorded if b in alive and recorded[b] >= lives[b].directories_since]
    counting = [b for b in whole if recorded[b] == lives[b].epoch or recorded[b] == lives[b].clean_epoch]
    if counting:
        members = [b for b in counting if not lives[b].leaving]
        if not members:
            return -1, set(counting), state.leader != -1, ()
        keeps = state.leader in members and recorded[state.leader] == lives[state.leader].epoch
        leader = state.leader if keeps else min(members, key=replicas.index)
        return leader, set(members), not keeps, ()
    if all(b in alive and not lives[b].leaving for b in recorded):
        if len(whole) == len(recorded) == 1:
            return whole[0], set(whole), True, ()
        return -1, set(recorded), state.leader != -1, recorded
    return -1, set(recorded), state.leader != -1, ()


def counting_members(state, lives, offline):
    members = zip(state.isr, state.isr_epochs, strict=True)
    return [broker for broker, epoch in members if broker not in offline and counts(broker, epoch, lives)]


@given(worlds())
def test_elect_does_what_rule_8_says(world):
    state, replicas, lives, offline = world
    election = elect(state, replicas, lives, offline=offline)
    leader, isr, elected, asked = twin(*world)
    after = election.state or state
    assert after.leader == leader
    assert set(after.isr) == isr
    assert after.leader_epoch == state.leader_epoch + (1 if elected else 0)
    assert tuple(election.candidates) == tuple(asked)
    assert not election.unclean
    if leader != -1:
        assert after.isr_epochs == tuple(lives[broker].epoch for broker in after.isr)
    elif not counting_members(state, lives, offline):
        assert (after.isr, after.isr_epochs) == (state.isr, state.isr_epochs)


@given(worlds())
def test_what_was_elected_stands(world):
    state, replicas, lives, offline = world
    after = elect(state, replicas, lives, offline=offline).state
    if after is not None and after.leader != -1:
        assert elect(after, replicas, lives, offline=offline) == UNCHANGED


@given(worlds())
def test_an_unclean_election_takes_any_live_replica_but_never_a_dead_one(world):
    state, replicas, lives, offline = world
    election = elect(state, replicas, lives, offline=offline, unclean=True)
    after = election.state or state
    present = {b for b in replicas if b in lives and b not in offline and not lives[b].leaving}
    if counting_members(state, lives, offline):
        assert election == elect(state, replicas, lives, offline=offline)
        assert not election.unclean
    elif present:
        assert after.leader in present
        assert after.isr == (after.leader,)
        assert election.unclean
        assert after.leader in state.isr or not present & set(state.isr)
    else:
        assert after.leader == -1


@given(worlds())
def test_a_preferred_election_moves_only_to_a_member_that_counts(world):
    state, replicas, lives, offline = world
    after = elect_preferred(state, replicas, lives, offline=offline)
    recorded = dict(zip(state.isr, state.isr_epochs, strict=True))
    first = replicas[0]
    may = (
        first in recorded
        and first not in offline
        and counts(first, recorded[first], lives)
        and not lives[first].leaving
        and state.leader != first
    )
    assert (after is not None) == may
    if after is not None:
        assert after == state._replace(leader=first, leader_epoch=state.leader_epoch + 1)


def test_a_member_counts_by_its_present_epoch_or_by_the_one_it_ended_cleanly():
    assert counts(1, 7, {1: Life(7)})
    assert counts(1, 7, {1: Life(9, clean_epoch=7)})
    assert not counts(1, 7, {1: Life(9)})
    assert not counts(1, 7, {1: Life(9, clean_epoch=8)})
    assert not counts(1, 7, {})
    assert not counts(1, -1, {1: Life(9, clean_epoch=-1)})


def test_a_clean_end_proves_nothing_of_a_life_with_a_directory_that_is_missing_now():
    assert counts(1, 7, {1: Life(9, clean_epoch=7, directories_since=7)})
    assert not counts(1, 7, {1: Life(9, clean_epoch=7, directories_since=8)})
    assert counts(1, 9, {1: Life(9, directories_since=9)})
    assert Life(9, directories_since=9).holds(-1), "nothing was ever written there"


def test_the_only_member_that_is_back_without_a_directory_is_asked_whether_it_has_the_replica():
    state = LeadershipState(-1, 4, (1,), (7,), 1)
    found = elect(state, (1, 2), {1: Life(9, clean_epoch=7, directories_since=9), 2: Life(5)})
    assert (found.state, found.candidates) == (None, (1,))
    found = elect(state, (1, 2), {1: Life(9, directories_since=9)}, unclean=True)
    assert (found.unclean, found.state.leader) == (True, 1)


def test_who_misses_a_directory_is_asked_too_for_it_may_have_the_most_complete_log_in_another():
    """Seed 110128: of the others one had lost its power, and its shorter log led."""
    state = LeadershipState(-1, 4, (0, 1), (7, 8), 1)
    lives = {0: Life(17, directories_since=17), 1: Life(18)}
    assert elect(state, (0, 1, 2), lives) == Election(None, (0, 1))


def test_the_most_complete_log_leads_alone():
    state = LeadershipState(-1, 4, (2, 1, 3), (10, 11, 12), 1)
    lives = {1: Life(21), 2: Life(22), 3: Life(23)}
    ends = {1: (3, 100), 2: (4, 90), 3: (4, 90)}
    after = elect_by_logs(state, (1, 2, 3), lives, ends)
    assert (after.leader, after.isr, after.isr_epochs, after.leader_epoch) == (2, (2,), (22,), 5)


def test_a_new_partition_is_led_by_its_first_live_replica():
    lives = {1: Life(5), 2: Life(6, leaving=True), 3: Life(7)}
    assert first_state((2, 3, 1), lives) == LeadershipState(3, 0, (3, 1), (7, 5))


def test_a_new_partition_without_live_replicas_waits_for_all_of_them():
    state = first_state((2, 3), {})
    assert state == LeadershipState(-1, 0, (2, 3), (-1, -1))
    assert elect(state, (2, 3), {2: Life(5)}) == UNCHANGED
    assert elect(state, (2, 3), {2: Life(5), 3: Life(6)}).candidates == (2, 3)
