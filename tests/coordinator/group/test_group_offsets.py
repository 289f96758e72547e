"""Stories of committed offsets: who may commit, who sees what, what survives."""

import pytest

from tests.coordinator.group.consumer.consumer_harness import Cluster
from tests.coordinator.group.harness import GroupHarness
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID

MINUTE = 60_000
WEEK = 10_080 * MINUTE
"""offsets.retention.minutes"""


def test_a_commit_without_a_group_is_found_again_with_its_metadata():
    harness = GroupHarness()
    assert harness.commit_codes({("t", 0): 5, ("t", 1): 7}, metadata="näh") == [ErrorCode.NONE] * 2
    answer = harness.answers[harness.fetch(topics={"t": [0, 1, 2], "u": [0]})].groups[0]
    found = {(t.name, p.partition_index): (p.committed_offset, p.metadata) for t in answer.topics for p in t.partitions}
    assert found == {("t", 0): (5, "näh"), ("t", 1): (7, "näh"), ("t", 2): (-1, ""), ("u", 0): (-1, "")}
    assert harness.positions() == {("t", 0): 5, ("t", 1): 7}


def test_metadata_has_a_limit_for_each_partition_alone():
    harness = GroupHarness({"offset.metadata.max.bytes": "4"})
    assert harness.commit_codes({("t", 0): 5}, metadata="12345") == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert harness.commit_codes({("t", 0): 5}, metadata="1234") == [ErrorCode.NONE]
    assert harness.commit_codes({("t", 1): 6}, metadata=None) == [ErrorCode.NONE]
    assert harness.positions() == {("t", 0): 5, ("t", 1): 6}


def test_only_members_of_the_present_generation_may_commit():
    harness = GroupHarness()
    (a, _), generation = harness.stable(count=2)
    position = {("t", 0): 1}
    assert harness.commit_codes(position, member=a, generation=generation) == [ErrorCode.NONE]
    assert harness.commit_codes(position, member=a, generation=generation - 1) == [ErrorCode.ILLEGAL_GENERATION]
    assert harness.commit_codes(position, member="x", generation=generation) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert harness.commit_codes(position) == [ErrorCode.UNKNOWN_MEMBER_ID], "an outsider, while there are members"
    assert harness.commit_codes(position, group="none", generation=3, version=9) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert harness.commit_codes(position, group="none", generation=3, version=8) == [ErrorCode.ILLEGAL_GENERATION]


def test_during_a_rebalance_members_commit_until_they_are_in_the_next_generation():
    harness = GroupHarness()
    (a, b), _ = harness.stable(count=2)
    harness.join(a)
    assert harness.commit_codes({("t", 0): 1}, member=b, generation=1) == [ErrorCode.NONE], "still the old generation"
    harness.join(b)
    assert harness.commit_codes({("t", 0): 2}, member=b, generation=2) == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_commit_keeps_the_session_alive():
    harness = GroupHarness()
    (a,), _ = harness.stable(session=10_000)
    for _ in range(5):
        harness.pass_time(9_000)
        harness.commit({("t", 0): 1}, member=a, generation=1)
    assert harness.heartbeat(a, 1) == ErrorCode.NONE


def test_an_outsider_commits_for_a_group_that_has_become_empty():
    harness = GroupHarness()
    (a,), _ = harness.stable()
    harness.leave(a)
    assert harness.commit_codes({("t", 0): 9}) == [ErrorCode.NONE]


@pytest.mark.parametrize("group", ["", "/", ".", "..", "a/b", "a//b"])
def test_odd_group_ids_stay_apart(group):
    """The empty id has no members, but old clients commit under it."""
    harness = GroupHarness({"offsets.topic.num.partitions": "3"})
    ids = ["", "/", ".", "..", "a/b", "a//b"]
    for number, each in enumerate(ids):
        harness.commit({("t", 0): number}, group=each)
    assert harness.positions(group) == {("t", 0): ids.index(group)}


# Committed and not.


def test_a_commit_is_answered_when_it_is_committed_and_readers_see_it_then():
    harness = GroupHarness()
    harness.commit({("t", 0): 1})
    harness.holding = True
    commit = harness.commit({("t", 0): 2})
    assert commit not in harness.answers
    assert harness.positions() == {("t", 0): 1}
    stable = harness.fetch(stable=True)
    assert stable not in harness.answers, "it sees the newest position, and waits until that is committed"
    harness.release()
    assert commit in harness.answers
    assert harness.positions() == {("t", 0): 2}
    (group,) = harness.answers[stable].groups
    assert group.topics[0].partitions[0].committed_offset == 2


def test_answers_leave_in_the_order_of_the_log():
    harness = GroupHarness()
    harness.holding = True
    commits = [harness.commit({("t", 0): number}) for number in range(3)]
    harness.log.high_watermark = 2
    harness.carry_out(harness.coordinator.committed(0, 2, harness.now))
    assert [token in harness.answers for token in commits] == [True, True, False]
    assert harness.positions() == {("t", 0): 1}


def test_a_commit_that_followers_do_not_get_in_time_is_not_acknowledged():
    harness = GroupHarness()
    harness.holding = True
    commit, fetch = harness.commit({("t", 0): 1}), harness.fetch(stable=True)
    harness.pass_time(5_000)
    code = harness.answers[commit].topics[0].partitions[0].error_code
    assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.answers[fetch].groups[0].error_code == ErrorCode.NOT_COORDINATOR
    harness.release()
    assert harness.positions() == {("t", 0): 1}, "it was in the log all the same"


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_a_refused_append_changes_nothing(refusal, told):
    harness = GroupHarness()
    harness.commit({("t", 0): 1})
    harness.refusing = refusal
    assert harness.commit_codes({("t", 0): 2}) == [told]
    assert harness.positions() == harness.positions(stable=True) == {("t", 0): 1}


def test_an_acknowledged_commit_is_what_is_fetched_after_failover():
    """I29. What was not acknowledged may be lost, and is."""
    harness = GroupHarness()
    (a,), _ = harness.stable()
    harness.commit({("t", 0): 1, ("t", 1): 1}, member=a, generation=1)
    harness.commit({("t", 0): 2}, member=a, generation=1)
    harness.holding = True
    lost = harness.commit({("t", 0): 3}, member=a, generation=1)
    assert lost not in harness.answers
    after = harness.failover()
    assert after.positions() == {("t", 0): 2, ("t", 1): 1}
    assert after.commit_codes({("t", 0): 4}, member=a, generation=1) == [ErrorCode.NONE]


def test_a_new_leader_behind_the_old_ones_high_watermark_does_not_go_back():
    """Rule 9: it has the record, but does not know yet that it is committed. A reader waits rather than begin again
    from an older position."""
    harness = GroupHarness()
    harness.commit({("t", 0): 1})
    harness.commit({("t", 0): 2})
    harness.log.high_watermark = 1
    after = GroupHarness(log=harness.log, now=harness.now)
    fetch = after.fetch()
    assert fetch not in after.answers
    after.release()
    (group,) = after.answers[fetch].groups
    assert group.topics[0].partitions[0].committed_offset == 2


def test_a_position_in_a_deleted_topic_is_not_one_in_a_new_topic_of_its_name():
    harness = GroupHarness()
    harness.commit({("t", 0): 5}, topic_id=b"1" * 16)
    assert harness.positions(topics={"t": [0]}, topic_id=b"1" * 16) == {("t", 0): 5}
    assert harness.positions(topics={"t": [0]}, topic_id=NO_ID) == {("t", 0): 5}
    assert harness.positions(topics={"t": [0]}, topic_id=b"2" * 16) == {("t", 0): -1}


@pytest.mark.parametrize("topics", [{"t": [0]}, None], ids=["named", "all"])
def test_by_name_too_a_position_counts_in_the_topic_that_it_was_committed_in(topics):
    """Before version 10 a request names no id: it means the topic that has the name now."""
    cluster = Cluster(t=1)
    harness = GroupHarness(cluster=cluster)
    harness.commit({("t", 0): 5}, topic_id=cluster.id("t"))
    assert harness.positions(topics=topics) == {("t", 0): 5}
    cluster.make("t", 1)
    assert harness.positions(topics=topics) == ({} if topics is None else {("t", 0): -1})


def test_who_has_not_heard_of_all_topics_cannot_say_which_of_two_ids_is_the_later():
    cluster = Cluster(t=1)
    harness = GroupHarness(cluster=cluster)
    harness.commit({("t", 0): 5}, topic_id=b"9" * 16)
    cluster.is_complete = False
    answer = harness.answers[harness.fetch(topics={"t": [0]})].groups[0]
    assert (answer.error_code, answer.topics) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


def test_positions_in_a_replaced_topic_are_forgotten_and_those_in_the_new_one_kept():
    cluster = Cluster(t=2)
    harness = GroupHarness(cluster=cluster)
    harness.commit({("t", 0): 5}, topic_id=cluster.id("t"))
    harness.commit({("t", 0): 6}, group="h")
    cluster.make("t", 2)
    harness.commit({("t", 1): 7}, topic_id=cluster.id("t"))
    harness.carry_out(harness.coordinator.topics_deleted(["t"], harness.now))
    assert harness.positions() == harness.failover().positions() == {("t", 1): 7}
    assert harness.positions("h") == {}, "nobody knows which topic that was"


def test_positions_in_deleted_topics_are_forgotten():
    harness = GroupHarness()
    harness.commit({("t", 0): 5, ("u", 0): 6})
    harness.commit({("t", 1): 5}, group="h")
    harness.carry_out(harness.coordinator.topics_deleted(["t"], harness.now))
    assert harness.positions() == {("u", 0): 6}
    assert harness.positions("h") == {}
    assert harness.failover().positions() == {("u", 0): 6}


# Expiry.


def test_positions_of_an_abandoned_simple_group_expire_and_the_group_with_them():
    harness = GroupHarness()
    harness.commit({("t", 0): 1})
    harness.pass_time(WEEK - 20 * MINUTE)
    harness.commit({("t", 1): 1})
    harness.pass_time(30 * MINUTE)
    assert harness.positions() == {("t", 1): 1}
    harness.pass_time(WEEK)
    assert harness.positions() == {}
    assert "g" not in harness.machine.groups
    assert harness.log.keys_and_values()[-1][1] is None, "tombstones, so that compaction forgets it too"


def test_positions_of_an_empty_group_count_from_when_its_last_member_left():
    harness = GroupHarness()
    (a,), _ = harness.stable(session=1_800_000)
    harness.commit({("t", 0): 1}, member=a, generation=1)
    for _ in range(WEEK // 1_500_000):
        harness.pass_time(1_500_000)
        assert harness.heartbeat(a, 1) == ErrorCode.NONE
    harness.leave(a)
    harness.pass_time(WEEK - 20 * MINUTE)
    assert harness.positions() == {("t", 0): 1}
    harness.pass_time(40 * MINUTE)
    assert harness.positions() == {}


def test_positions_stay_while_the_group_subscribes_to_the_topic():
    harness = GroupHarness()
    (a,), _ = harness.stable(session=1_800_000)
    harness.commit({("t", 0): 1, ("unsubscribed", 0): 1}, member=a, generation=1)
    for _ in range(WEEK // 1_500_000 + 2):
        harness.pass_time(1_500_000)
        harness.heartbeat(a, 1)
    assert harness.positions() == {("t", 0): 1}


def test_a_group_without_positions_takes_no_memory():
    harness = GroupHarness()
    for number in range(3):
        harness.commit({("t", 0): 1}, group=f"g{number}")
    assert repr(harness.machine.offsets) == "<OffsetTable of 3 groups>"
    harness.pass_time(WEEK + MINUTE)
    assert repr(harness.machine.offsets) == "<OffsetTable of 0 groups>"


def test_an_old_clients_own_retention_time_is_kept():
    harness = GroupHarness()
    harness.commit({("t", 0): 1}, version=4, retention=60 * MINUTE)
    harness.commit({("t", 1): 1}, version=4)
    harness.pass_time(55 * MINUTE)
    assert harness.positions() == {("t", 0): 1, ("t", 1): 1}
    harness.pass_time(20 * MINUTE)
    assert harness.positions() == {("t", 1): 1}


def test_many_expired_groups_go_in_several_batches():
    harness = GroupHarness()
    for number in range(30):
        harness.commit({("t", partition): 1 for partition in range(100)}, group=f"g{number}")
    before = len(harness.log.batches)
    harness.pass_time(WEEK + 11 * MINUTE)
    assert harness.machine.groups == {}
    assert len(harness.log.batches) > before + 2
