"""I29 can be broken: generations, and who owns what in one."""

import pytest

from tests.sim.checks.support import NAME
from tidelog.model import GROUP_TOPIC, TopicPartition
from tidelog.sim.checks.suite import Suite


def test_generations_that_ascend():
    suite = Suite()
    suite.group_joined("g", 1, "one", [NAME])
    suite.group_joined("g", 2, "two", [NAME])
    suite.group_joined("g", 1, "three", [])


def test_a_member_that_goes_back():
    suite = Suite()
    suite.group_joined("g", 2, "one", [])
    with pytest.raises(AssertionError, match=r"^I29:"):
        suite.group_joined("g", 1, "one", [])


def test_two_owners_in_one_generation():
    suite = Suite()
    suite.group_joined("g", 2, "one", [NAME])
    with pytest.raises(AssertionError, match=r"^I29:"):
        suite.group_joined("g", 2, "two", [NAME])


def test_a_group_that_its_coordinator_may_have_lost():
    suite = Suite()
    suite.group_joined("g", 2, "one", [NAME])
    suite.ghosts.of(TopicPartition(GROUP_TOPIC, 0)).loss_allowed = "for this test"
    suite.group_joined("g", 1, "one", [NAME])
