"""I12, I13, I14, I20, I21 and I32 can be broken: who leads, what followers append, and where truncations come from."""

import pytest

from tests.sim.checks.support import NAME, append, ghosts, replica, state
from tidelog.sim.checks import leadership
from tidelog.sim.checks.wire import followers
from tidelog.sim.checks.wire.wire_tap import ResponseSource
from tidelog.sim.store import Tree

ID = b"T" * 16


def appended(made, to, *batches, source=None):
    leadership.check_appended(made, to, append(to, *batches), lambda _: True, source)


def test_two_leaders_in_one_epoch():
    with pytest.raises(AssertionError, match=r"^I12:"):
        leadership.check(ghosts(), replica(1, isr=(0, 1)), None)


def test_a_record_that_its_leader_did_not_append_first():
    with pytest.raises(AssertionError, match=r"^I12:"):
        appended(ghosts(), replica(1), (5, 1))


def test_a_follower_appends_what_its_leader_has():
    made = ghosts()
    appended(made, replica(0, isr=(0, 1)), (5, 1))
    appended(made, replica(1), (5, 1), source=ResponseSource(0, 1))


@pytest.mark.parametrize("other", [(5, 1, 77), (4, 1)])
def test_a_follower_that_appends_something_else(other):
    made = ghosts()
    appended(made, replica(0, isr=(0, 1)), (5, 1))
    with pytest.raises(AssertionError, match=r"^I21:"):
        appended(made, replica(1), other, source=ResponseSource(0, 1))


def test_a_follower_that_appends_what_another_epoch_gave_it():
    made = ghosts()
    appended(made, replica(0, isr=(0, 1)), (5, 1))
    with pytest.raises(AssertionError, match=r"^I21: .*in epoch 0"):
        appended(made, replica(1), (5, 1), source=ResponseSource(2, 0))


def test_a_stranger_that_is_answered_or_kept_account_of():
    followers.check_unassigned([])
    followers.check_remote(ghosts(), replica(0, isr=(0,)), [1, 2])
    with pytest.raises(AssertionError, match=r"^I21:"):
        followers.check_unassigned(["broker-0 answers broker 7"])
    with pytest.raises(AssertionError, match=r"^I21:"):
        followers.check_remote(ghosts(), replica(0, isr=(0,)), [1, 7])


@pytest.mark.parametrize("older", [{"epoch": 2}, {"partition_epoch": 6}])
def test_a_broker_that_goes_back_to_an_earlier_epoch(older):
    with pytest.raises(AssertionError, match=r"^I13:"):
        leadership.check(ghosts(), replica(1), replica(1, **older).state)


@pytest.mark.parametrize(
    ("after", "name"),
    [
        (state(epoch=0), "I13"),
        (state(controller=0), "I13"),
        (state(1), "I12"),
        (state(2, isr=(0, 1)), "I14"),
        (state(isr=(0, 3), epochs=(10, 13)), "I14"),
        (state(-1, isr=()), "I32"),
    ],
)
def test_states_that_must_not_follow(after, name):
    with pytest.raises(AssertionError, match=rf"^{name}:"):
        leadership.check_tree(ghosts(after), NAME, state(), 4)


def test_a_partition_epoch_that_stands_still():
    with pytest.raises(AssertionError, match=r"^I13:"):
        leadership.check_tree(ghosts(), NAME, state(), 5)


def test_a_reassignment_that_adds_what_it_removes():
    made = ghosts()
    made.reassigning[NAME] = (2,), (2,)
    with pytest.raises(AssertionError, match=r"^I14:"):
        leadership.check_tree(made, NAME, None, None)


def test_data_that_goes_without_the_controllers_word():
    with pytest.raises(AssertionError, match=r"^I32:"):
        leadership.check_deleted(ghosts(), NAME, ID, 1)
    made = ghosts()
    made.deleting.add("t")
    leadership.check_deleted(made, NAME, ID, 1)


def test_data_of_an_earlier_topic_of_that_name_may_go():
    leadership.check_deleted(ghosts(), NAME, b"E" * 16, 1)


def test_a_controller_epoch_and_a_broker_epoch_that_go_back():
    made, tree = ghosts(), Tree()
    made.controller_epoch = 7
    node = tree.nodes["/controller_epoch"]
    tree.nodes["/controller_epoch"] = node._replace(data=b"6")
    with pytest.raises(AssertionError, match=r"^I13:"):
        made.read(tree, set())


LEADER = ResponseSource(0, 1)


def cut(to, source=LEADER, *, told=5, isr=(0, 1), appended_in=0, newest=0):
    made = ghosts(state(isr=isr))
    made.of(NAME).true_high_watermark = told
    follower = replica(1, ((5, 0), (5, newest)))
    follower.appended_in = appended_in
    leadership.check_truncation(made, follower, follower.cut(to), source)


def test_a_cut_at_the_word_of_the_epochs_leader():
    cut(5)


def test_a_cut_below_what_is_committed_is_for_those_who_are_out_of_sync():
    cut(0, isr=(0, 2))
    with pytest.raises(AssertionError, match=r"^I20: .*below TrueHW 5"):
        cut(0)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"source": None}, "without a response"),
        ({"source": ResponseSource(2, 0)}, "in epoch 0"),
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
    made.allow_loss(NAME, "for this test")
    follower = replica(1, ((5, 0), (5, 0)))
    leadership.check_truncation(made, follower, follower.cut(0), LEADER)


def test_who_starts_over_where_its_leader_begins_gives_up_only_what_lies_behind():
    """What its leader has deleted was committed; what the two differ in lies behind it (seed 7003055)."""
    made = ghosts(state(isr=(0, 1)))
    made.of(NAME).true_high_watermark = 5
    follower = replica(1, ((5, 0), (6, 0)))
    gone = follower.cut(0)
    follower.partition.log.log_start_offset = 5
    leadership.check_truncation(made, follower, gone, LEADER)
    made.of(NAME).true_high_watermark = 6
    with pytest.raises(AssertionError, match=r"^I20: .*below TrueHW 6"):
        leadership.check_truncation(made, follower, gone, LEADER)
