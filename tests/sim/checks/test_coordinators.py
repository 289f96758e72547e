"""I29 can be broken: generations, and who owns what in one."""

import pytest

from tests.sim.checks.support import NAME
from tidelog.effects import Event
from tidelog.errors import ErrorCode
from tidelog.model import GROUP_TOPIC, TopicPartition
from tidelog.sim.checks.suite import Suite


def test_generations_that_ascend():
    suite = Suite()
    suite.groups.joined("g", 1, "one", [NAME])
    suite.groups.joined("g", 2, "two", [NAME])
    suite.groups.joined("g", 1, "three", [])


def test_a_member_that_goes_back():
    suite = Suite()
    suite.groups.joined("g", 2, "one", [])
    with pytest.raises(AssertionError, match=r"^I29:"):
        suite.groups.joined("g", 1, "one", [])


def test_two_owners_in_one_generation():
    suite = Suite()
    suite.groups.joined("g", 2, "one", [NAME])
    with pytest.raises(AssertionError, match=r"^I29:"):
        suite.groups.joined("g", 2, "two", [NAME])


def test_a_group_that_its_coordinator_may_have_lost():
    suite = Suite()
    suite.groups.joined("g", 2, "one", [NAME])
    suite.ghosts.of(TopicPartition(GROUP_TOPIC, 0)).loss_allowed = "for this test"
    suite.groups.joined("g", 1, "one", [NAME])


def test_two_processes_of_one_static_member():
    suite = Suite()
    suite.groups.joined("g", 2, "one", [NAME], "instance")
    suite.groups.joined("g", 2, "two", [NAME], "instance")
    with pytest.raises(AssertionError, match=r"^I29:"):
        suite.groups.joined("g", 2, "three", [NAME], "another")


def test_a_group_that_is_gone_when_the_time_of_its_members_was_over():
    """Seeds 1005566 and 1005629."""
    groups, error = Suite().groups, ErrorCode.GROUP_ID_NOT_FOUND
    assert not groups.may_be_gone("g", "one", error)
    groups.happened(Event("group.member_fenced", {"group": "g", "member": "one", "reason": "its session is over"}))
    assert groups.may_be_gone("g", "one", error)
    assert not groups.may_be_gone("g", "two", error)
    assert not groups.may_be_gone("another", "one", error)
    assert not groups.may_be_gone("g", "one", ErrorCode.FENCED_MEMBER_EPOCH)


def test_a_group_of_both_protocols_that_was_empty_counts_from_the_start():
    """Seed 30094."""
    suite = Suite()
    suite.groups.joined("g", 1, "one", [NAME])
    suite.groups.joined("g", 2, "one", [NAME])
    suite.groups.reset_generations("g")
    suite.groups.joined("g", 1, "two", [NAME])


def test_a_group_without_members_that_becomes_one_of_the_other_kind_begins_anew():
    """Seed 10598: an empty classic group was taken for the consumer group before it."""
    groups = Suite().groups
    assigned = Event("group.assigned", {"group": "g", "epoch": 2, "members": 1})
    generation = [Event("group.generation", {"group": "g", "generation": 4, "members": count}) for count in (0, 1)]
    for events, was_recreated in (
        ([assigned], False),
        ([generation[0], assigned], True),
        ([assigned], False),
        ([generation[0], generation[1], assigned], False),
        ([Event("group.rebalance", {"group": "g", "generation": 3})], False),
        ([Event("group.rebalance", {"group": "g", "generation": 0})], True),
    ):
        for event in events:
            groups.happened(event)
        assert groups.was_recreated("g", is_mixed=True) == was_recreated, events


def test_only_a_group_that_was_left_by_all_may_be_forgotten():
    """Seed 2721 with stale coordinators: a group without members and positions goes at the next look for such."""
    groups = Suite().groups
    rebuild = Event("group.rebalance", {"group": "g", "generation": 0})
    generation = [Event("group.generation", {"group": "g", "generation": 3, "members": count}) for count in (0, 1)]
    for events, was_recreated in (
        ([rebuild], False),
        ([generation[1], rebuild], False),
        ([generation[0], rebuild], True),
    ):
        for event in events:
            groups.happened(event)
        assert groups.was_recreated("g", is_mixed=False) == was_recreated, events


def test_a_consumer_group_that_expired_counts_from_the_start():
    """Seed 23002774, shortened: all members were fenced, and nothing was left of the group."""
    groups = Suite().groups
    groups.joined("g", 2, "one", [NAME])
    assert not groups.was_recreated("g", is_mixed=False)
    groups.happened(Event("group.expired", {"group": "g"}))
    assert not groups.was_recreated("another", is_mixed=False)
    assert groups.was_recreated("g", is_mixed=False)
    assert groups.was_recreated("g", is_mixed=True) is False, "it is new once"
    groups.reset_generations("g")
    groups.joined("g", 2, "two", [NAME])
