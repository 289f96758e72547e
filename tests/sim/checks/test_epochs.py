"""I18 and I19 can be broken: what an epoch cache holds, and what it answers."""

import pytest

from tests.sim.checks.support import append, replica
from tidelog.partition.truncation import EpochEnd
from tidelog.sim.checks import epochs

BATCHES = ((5, 0), (5, 1), (5, 3))
RIGHT = ((0, 0), (1, 5), (3, 10))


def judge(given, *, epoch=3, led=(), cut=False, batches=BATCHES):
    found = replica(0, batches, epochs=given, epoch=epoch)
    found.led.update(led)
    epochs.check(found, None, cut=cut)


def test_a_cache_that_fits_its_log():
    judge(RIGHT)
    judge((*RIGHT, (4, 15)), epoch=4, led=(4,))


@pytest.mark.parametrize(
    ("given", "led"),
    [
        (((0, 0), (1, 6), (3, 10)), ()),
        (((0, 0), (3, 10)), ()),
        ((*RIGHT, (4, 15)), ()),
        ((*RIGHT, (4, 16)), (4,)),
    ],
    ids=["begins elsewhere", "is missing", "has no record and was not led", "lies beyond the end"],
)
def test_caches_that_do_not_fit(given, led):
    with pytest.raises(AssertionError, match=r"^I18:"):
        judge(given, epoch=4, led=led)


def test_a_cache_that_remembers_what_was_cut_off():
    leader = replica(0, BATCHES, epochs=RIGHT, epoch=4)
    leader.led.add(3)
    leader.cut(10)
    leader.state = leader.state._replace(end=10)
    with pytest.raises(AssertionError, match=r"^I18:"):
        epochs.check(leader, replica(0, BATCHES, epoch=4).state, cut=True)


def test_what_a_crash_brought_back_below_an_earlier_start_proves_nothing():
    found = replica(0, BATCHES, epochs=((1, 7), (3, 10)), epoch=3)
    with pytest.raises(AssertionError, match=r"^I18:"):
        epochs.check(found, None, cut=False)
    found.log.deleted_to = 7
    epochs.check(found, None, cut=False)


def test_a_tail_whose_epoch_is_not_noted():
    follower = replica(0, BATCHES, epochs=RIGHT, epoch=4)
    before = follower.state
    append(follower, (5, 4))
    follower.state = before._replace(end=20)
    with pytest.raises(AssertionError, match=r"^I18:"):
        epochs.check(follower, before, cut=False)


def test_entries_that_do_not_ascend():
    with pytest.raises(AssertionError, match=r"^I18:"):
        epochs.check_order(replica(0), [(0, 0), (1, 5), (2, 5)])


@pytest.mark.parametrize(
    ("asked", "right"), [(-1, (-1, -1)), (0, (0, 5)), (1, (1, 10)), (2, (1, 10)), (3, (3, 15)), (4, (-1, -1))]
)
def test_rule_6_read_aloud(asked, right):
    assert epochs.brute_force(RIGHT, 15, asked) == right
    found = replica(0, BATCHES, epochs=RIGHT, epoch=3)
    epochs.check_answer(found, RIGHT, asked)
    found.partition.epoch_end = lambda _: EpochEnd(right[0], right[1] + 1)
    with pytest.raises(AssertionError, match=r"^I19:"):
        epochs.check_answer(found, RIGHT, asked)


def test_older_than_all():
    assert epochs.brute_force(((2, 7),), 9, 1) == (1, 7)
