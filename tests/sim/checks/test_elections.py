"""I17 can be broken: who may lead by rule 8, what an unclean election means, and by an unproven clean shutdown."""

import pytest

from tests.sim.checks.support import NAME, ghosts, replica, state
from tidelog.sim.checks import elections
from tidelog.sim.checks.elections import Registrations

BEFORE = state()


def elect(after, *, lives=None, before=BEFORE, replicas=(), unclean=False, clean=(), excused=()):
    made = ghosts(after, lives=lives)
    made.registered.update(clean)
    found = {one.broker: one for one in replicas}
    elections.check(made, NAME, before, found, lambda broker: broker in excused, unclean=unclean)
    return made.of(NAME)


def test_the_first_that_counts_leads():
    elect(state(1, 2, (1, 2)), lives={1: 11, 2: 12})
    elect(state(1, 2, (1, 2)), excused=(0,))
    elect(state(0, 2, (0, 1, 2), (20, 11, 12)), lives={0: 20, 1: 11, 2: 12}, clean={(0, 20): 10}.items())


@pytest.mark.parametrize(
    ("after", "lives"),
    [
        (state(2, 2, (1, 2)), {1: 11, 2: 12}),
        (state(1, 2, (1,)), {1: 11, 2: 12}),
        (state(0, 2, (0, 1, 2), (20, 11, 12)), {0: 20, 1: 11, 2: 12}),
        (state(1, 2, (1, 0), (11, 20)), {0: 20, 1: 11}),
        (state(-1, 2), {1: 11}),
    ],
    ids=["not the first", "drops who counts", "a new life leads", "a new life stays in sync", "nobody leads"],
)
def test_elections_against_rule_8(after, lives):
    with pytest.raises(AssertionError, match=r"^I17:"):
        elect(after, lives=lives)


def test_a_clean_end_does_not_count_without_a_directory_of_then():
    made = ghosts(state(0, 2, (0, 1, 2), (20, 11, 12)), lives={0: 20, 1: 11, 2: 12})
    made.registered[0, 20] = 10
    made.directories = {(0, 10): frozenset({b"a", b"b"}), (0, 20): frozenset({b"a", b"c"})}
    with pytest.raises(AssertionError, match=r"^I17:"):
        elections.check(made, NAME, BEFORE, {}, lambda _: False, unclean=False)
    alone = ghosts(state(0, 2, (0,), (20,)), lives={0: 20})
    alone.directories = made.directories
    with pytest.raises(AssertionError, match=r"^I17: .*lacks a log directory"):
        elections.check(alone, NAME, state(-1, 1, (0,), (10,)), {}, lambda _: False, unclean=False)


NEW = {0: 20, 1: 21, 2: 22}


def test_when_none_counts_the_most_complete_leads_once_all_are_back():
    logs = [replica(0, ((5, 0),), epochs=((0, 0),)), replica(1, ((5, 0), (5, 0)), epochs=((0, 0),))]
    elect(state(1, 2, (1,), (21,)), lives=NEW, replicas=logs)
    logs.append(replica(2, ((5, 0),), epochs=((0, 0),)))
    with pytest.raises(AssertionError, match=r"^I17: .*have more"):
        elect(state(0, 2, (0,), (20,)), lives=NEW, replicas=logs)
    assert elect(state(0, 2, (0,), (20,)), lives=NEW, replicas=logs, unclean=True).awaits_rebase
    assert not elect(state(1, 2, (1,), (21,)), lives=NEW, replicas=logs, unclean=True).awaits_rebase


def test_an_unclean_election_while_a_member_is_away_again_allows_loss():
    """Seed 3007302: it was back once, and what it holds was not seen when another one was elected on request."""
    logs = [replica(1, ((5, 0), (5, 0)), epochs=((0, 0),)), replica(2, ((5, 0),), epochs=((0, 0),))]
    assert elect(state(1, 2, (1,), (21,)), lives=NEW, replicas=logs, unclean=True).awaits_rebase
    assert not elect(state(1, 2, (1,), (21,)), lives=NEW, replicas=logs).awaits_rebase


def test_who_was_elected_for_what_an_earlier_life_told_is_not_held_to_what_a_crash_left():
    """Seed 7007281: killed before it heard of its election, and its last batch had rotted."""
    logs = [replica(0, ((5, 0),), epochs=((0, 0),)), replica(1, ((5, 0), (5, 0)), epochs=((0, 0),))]
    over = {"lives": {1: 21, 2: 22}, "clean": {(0, 20): -1}.items()}
    assert not elect(state(0, 2, (0,), (20,)), replicas=logs, **over).awaits_rebase


def test_a_later_epoch_beats_a_longer_log():
    logs = [replica(0, ((5, 0), (5, 0)), epochs=((0, 0),)), replica(1, ((5, 0),), epochs=((0, 0), (1, 5)))]
    with pytest.raises(AssertionError, match=r"^I17: .*have more"):
        elect(state(0, 2, (0,), (20,)), lives=NEW, replicas=logs)


def test_before_all_are_back_only_an_unclean_election_elects_and_allows_loss():
    ghost = elect(state(0, 2, (0,), (20,)), lives={0: 20}, unclean=True)
    assert ghost.loss_allowed.startswith("an unclean election")
    assert ghost.rebase_after == 1
    with pytest.raises(AssertionError, match=r"^I17: .*may not"):
        elect(state(0, 2, (0,), (20,)), lives={0: 20})


BROKER = 3


@pytest.fixture
def registrations():
    """A broker's first life, of epoch 20, which stopped cleanly; its second has a session."""
    made = Registrations()
    made.opened(4, 1)
    made.check(BROKER, 4, 20, -1)
    made.ended(BROKER, 1, "stop")
    made.opened(11, 2)
    return made


def test_the_life_before_ended_cleanly(registrations):
    registrations.check(BROKER, 11, 33, 20)


def test_what_was_said_by_a_life_that_is_over_is_of_the_life_before_it(registrations):
    """Seed 50440: the registration reached the store when its broker had lost its power."""
    registrations.ended(BROKER, 2, "power loss")
    registrations.opened(12, 3)
    registrations.check(BROKER, 11, 33, 20)


@pytest.mark.parametrize(("how", "stopping"), [("kill", False), ("power loss", False), ("halt", False)])
def test_a_life_that_ended_otherwise(registrations, how, stopping):
    registrations.check(BROKER, 11, 33, 20)
    registrations.ended(BROKER, 2, how, stopping=stopping)
    registrations.opened(12, 3)
    registrations.check(BROKER, 12, 40, -1)
    with pytest.raises(AssertionError, match=r"^I17: broker 3 proves epoch 33"):
        registrations.check(BROKER, 12, 41, 33)


def test_a_stop_that_was_cut_short_may_have_left_the_proof(registrations):
    registrations.check(BROKER, 11, 33, 20)
    registrations.ended(BROKER, 2, "kill", stopping=True)
    registrations.opened(12, 3)
    registrations.check(BROKER, 12, 40, 33)


def test_a_life_that_never_registered_passes_on_the_proof_if_it_stopped_cleanly(registrations):
    registrations.ended(BROKER, 2, "stop")
    registrations.opened(12, 3)
    registrations.check(BROKER, 12, 40, 20)


def test_a_life_that_never_registered_and_was_killed_takes_the_proof_away(registrations):
    registrations.ended(BROKER, 2, "kill")
    registrations.opened(12, 3)
    with pytest.raises(AssertionError, match="I17"):
        registrations.check(BROKER, 12, 40, 20)


def test_a_life_that_never_learned_of_its_registration_passes_on_the_proof(registrations):
    """Seed 22000197: its session ended before the answer came."""
    registrations.check(BROKER, 11, 33, 20)
    registrations.ended(BROKER, 2, "stop")
    registrations.opened(12, 3)
    registrations.check(BROKER, 12, 40, 20)


def test_a_life_that_lost_its_session_proves_its_own_epoch(registrations):
    registrations.check(BROKER, 11, 33, 20)
    registrations.opened(12, 2)
    registrations.check(BROKER, 12, 40, 33)


def test_a_life_that_was_over_before_its_first_step_leaves_the_proof_of_the_one_before(registrations):
    """Seed 3002826: its disk refused everything."""
    registrations.check(BROKER, 11, 33, 20)
    registrations.ended(BROKER, 2, "stop")
    registrations.ended(BROKER, 3, "halt", stillborn=True)
    registrations.opened(12, 4)
    registrations.check(BROKER, 12, 40, 33)


def test_a_life_that_was_over_before_its_first_step_proves_nothing_of_one_that_was_killed(registrations):
    registrations.check(BROKER, 11, 33, 20)
    registrations.ended(BROKER, 2, "kill")
    registrations.ended(BROKER, 3, "halt", stillborn=True)
    registrations.opened(12, 4)
    with pytest.raises(AssertionError, match="I17"):
        registrations.check(BROKER, 12, 40, 33)
