"""What a read of a group's offset may return: what was acknowledged last, and whatever may have come through since."""

import pytest

from tidelog.model import TopicPartition
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.clients.commits import GROUPS, NOTHING, Commits

PLACE = TopicPartition("t", 0)


class Story:
    """Commits and reads of one group, one microsecond apart."""

    def __init__(self):
        self.commits = Commits(Ghosts())
        self.now = 0

    def begin(self, offset):
        self.now += 1
        return self.commits.begin("g", PLACE, offset, self.now)

    def acknowledge(self, commit, *, for_sure=True):
        self.now += 1
        self.commits.acknowledge("g", PLACE, commit, self.now, for_sure=for_sure)

    def commit(self, offset, *, for_sure=True):
        self.acknowledge(self.begin(offset), for_sure=for_sure)

    def may_read(self, offset, since=None):
        self.now += 1
        place = self.commits.partition_commits("g", PLACE)
        return offset in place.may_be_read(self.now if since is None else since)


def test_before_the_first_commit_there_is_nothing():
    story = Story()
    assert story.may_read(NOTHING)
    assert not story.may_read(0)


def test_only_what_was_acknowledged_last_is_read():
    story = Story()
    story.commit(1)
    story.commit(2)
    assert story.may_read(2)
    assert not story.may_read(1)
    assert not story.may_read(NOTHING)


def test_a_commit_that_nobody_answered_may_have_come_through_or_not_at_any_time():
    story = Story()
    story.commit(1)
    story.begin(2)
    assert story.may_read(1)
    assert story.may_read(2)
    story.commit(3)
    assert story.may_read(2)
    assert story.may_read(3)
    assert not story.may_read(1)


def test_a_commit_whose_connection_broke_on_the_way_may_come_through_once_more():
    story = Story()
    story.commit(1, for_sure=False)
    story.commit(2)
    assert story.may_read(1)
    assert story.may_read(2)


def test_a_read_that_began_before_a_commit_ended_may_miss_it():
    story = Story()
    story.commit(1)
    since = story.now + 1
    story.now += 1
    story.commit(2)
    assert story.may_read(1, since)
    assert story.may_read(2, since)


def test_of_two_commits_at_the_same_time_either_may_be_the_last():
    story = Story()
    one, other = story.begin(1), story.begin(2)
    story.acknowledge(one)
    story.acknowledge(other)
    assert story.may_read(1)
    assert story.may_read(2)


def test_a_wrong_read_is_named():
    story = Story()
    story.commit(1)
    story.commit(2)
    story.commits.read("g", PLACE, 2, story.now + 1)
    with pytest.raises(AssertionError, match="I29: g at t-0 reads 1"):
        story.commits.read("g", PLACE, 1, story.now + 1)


def test_reads_say_nothing_once_the_coordinator_may_have_forgotten():
    story = Story()
    story.commit(1)
    story.commits.ghosts.of(GROUPS).loss_allowed = "all power at once"
    story.commits.read("g", PLACE, NOTHING, story.now + 1)
    assert story.commits.reads == 0


def test_a_commit_of_a_generation_that_the_group_has_left_behind_is_named():
    commits = Commits(Ghosts())
    commits.generation_reached("g", 3)
    commits.generation_reached("g", 2)
    commits.committed_in("g", 3, commits.generations["g"])
    with pytest.raises(AssertionError, match="I29: g accepted a commit of generation 2 after 3"):
        commits.committed_in("g", 2, commits.generations["g"])


def test_a_position_of_an_aborted_transaction_is_never_read():
    story = Story()
    story.commit(1)
    aborted = story.begin(2)
    assert story.may_read(2)
    story.commits.withdraw("g", PLACE, aborted)
    assert not story.may_read(2)
    assert story.may_read(1)


def test_who_had_a_partition_later_outranks_who_had_it_before():
    story = Story()
    story.commits.owns("g", 4, "one", [PLACE])
    assert story.commits.outranked("g", 4, "one", [PLACE]) == []
    assert story.commits.outranked("g", 4, "two", [PLACE]) == []
    story.commits.owns("g", 5, "two", [PLACE])
    story.commits.owns("g", 4, "one", [PLACE])
    assert story.commits.outranked("g", 4, "one", [PLACE]) == [PLACE]
    assert story.commits.outranked("g", 5, "two", [PLACE]) == []
    assert story.commits.outranked("h", 4, "one", [PLACE]) == []
    story.commits.reset_generations("g")
    assert story.commits.outranked("g", 4, "one", [PLACE]) == []
