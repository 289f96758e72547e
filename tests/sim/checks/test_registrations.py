"""I17 can be broken by a broker that vouches for a life that did not end cleanly."""

import pytest

from tidelog.sim.checks.registrations import Registrations

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
    with pytest.raises(AssertionError, match=r"^I17: broker 3 shows that 33 ended cleanly"):
        registrations.check(BROKER, 12, 41, 33)


def test_a_stop_that_was_cut_short_may_have_left_the_proof(registrations):
    registrations.check(BROKER, 11, 33, 20)
    registrations.ended(BROKER, 2, "kill", stopping=True)
    registrations.opened(12, 3)
    registrations.check(BROKER, 12, 40, 33)


def test_the_proof_of_an_older_life_is_none(registrations):
    """A life in between took it away, whatever it did itself."""
    registrations.ended(BROKER, 2, "stop")
    registrations.opened(12, 3)
    with pytest.raises(AssertionError, match="I17"):
        registrations.check(BROKER, 12, 40, 20)


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
