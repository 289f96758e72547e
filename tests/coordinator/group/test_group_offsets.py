"""Stories of committed offsets: who may commit, who sees what, what survives."""

import pytest

from tests.coordinator.group.consumer.people import Cluster
from tests.coordinator.group.ground import Ground
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID

MINUTE = 60_000
WEEK = 10_080 * MINUTE
"""offsets.retention.minutes"""


def test_a_commit_without_a_group_is_found_again_with_its_metadata():
    ground = Ground()
    assert ground.commit_codes({("t", 0): 5, ("t", 1): 7}, metadata="näh") == [ErrorCode.NONE] * 2
    answer = ground.answers[ground.fetch(topics={"t": [0, 1, 2], "u": [0]})].groups[0]
    found = {(t.name, p.partition_index): (p.committed_offset, p.metadata) for t in answer.topics for p in t.partitions}
    assert found == {("t", 0): (5, "näh"), ("t", 1): (7, "näh"), ("t", 2): (-1, ""), ("u", 0): (-1, "")}
    assert ground.positions() == {("t", 0): 5, ("t", 1): 7}


def test_metadata_has_a_limit_for_each_partition_alone():
    ground = Ground({"offset.metadata.max.bytes": "4"})
    assert ground.commit_codes({("t", 0): 5}, metadata="12345") == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert ground.commit_codes({("t", 0): 5}, metadata="1234") == [ErrorCode.NONE]
    assert ground.commit_codes({("t", 1): 6}, metadata=None) == [ErrorCode.NONE]
    assert ground.positions() == {("t", 0): 5, ("t", 1): 6}


def test_only_members_of_the_present_generation_may_commit():
    ground = Ground()
    (a, _), generation = ground.stable(count=2)
    position = {("t", 0): 1}
    assert ground.commit_codes(position, member=a, generation=generation) == [ErrorCode.NONE]
    assert ground.commit_codes(position, member=a, generation=generation - 1) == [ErrorCode.ILLEGAL_GENERATION]
    assert ground.commit_codes(position, member="x", generation=generation) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert ground.commit_codes(position) == [ErrorCode.UNKNOWN_MEMBER_ID], "an outsider, while there are members"
    assert ground.commit_codes(position, group="none", generation=3, version=9) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert ground.commit_codes(position, group="none", generation=3, version=8) == [ErrorCode.ILLEGAL_GENERATION]


def test_during_a_rebalance_members_commit_until_they_are_in_the_next_generation():
    ground = Ground()
    (a, b), _ = ground.stable(count=2)
    ground.join(a)
    assert ground.commit_codes({("t", 0): 1}, member=b, generation=1) == [ErrorCode.NONE], "still the old generation"
    ground.join(b)
    assert ground.commit_codes({("t", 0): 2}, member=b, generation=2) == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_commit_keeps_the_session_alive():
    ground = Ground()
    (a,), _ = ground.stable(session=10_000)
    for _ in range(5):
        ground.pass_time(9_000)
        ground.commit({("t", 0): 1}, member=a, generation=1)
    assert ground.heartbeat(a, 1) == ErrorCode.NONE


def test_an_outsider_commits_for_a_group_that_has_become_empty():
    ground = Ground()
    (a,), _ = ground.stable()
    ground.leave(a)
    assert ground.commit_codes({("t", 0): 9}) == [ErrorCode.NONE]


@pytest.mark.parametrize("group", ["", "/", ".", "..", "a/b", "a//b"])
def test_odd_group_ids_stay_apart(group):
    """The empty id has no members, but old clients commit under it."""
    ground = Ground({"offsets.topic.num.partitions": "3"})
    ids = ["", "/", ".", "..", "a/b", "a//b"]
    for number, each in enumerate(ids):
        ground.commit({("t", 0): number}, group=each)
    assert ground.positions(group) == {("t", 0): ids.index(group)}


# Committed and not.


def test_a_commit_is_answered_when_it_is_committed_and_readers_see_it_then():
    ground = Ground()
    ground.commit({("t", 0): 1})
    ground.holding = True
    commit = ground.commit({("t", 0): 2})
    assert commit not in ground.answers
    assert ground.positions() == {("t", 0): 1}
    stable = ground.fetch(stable=True)
    assert stable not in ground.answers, "it sees the newest position, and waits until that is committed"
    ground.release()
    assert commit in ground.answers
    assert ground.positions() == {("t", 0): 2}
    (group,) = ground.answers[stable].groups
    assert group.topics[0].partitions[0].committed_offset == 2


def test_answers_leave_in_the_order_of_the_log():
    ground = Ground()
    ground.holding = True
    commits = [ground.commit({("t", 0): number}) for number in range(3)]
    ground.log.high_watermark = 2
    ground.carry_out(ground.coordinator.committed(0, 2, ground.now))
    assert [token in ground.answers for token in commits] == [True, True, False]
    assert ground.positions() == {("t", 0): 1}


def test_a_commit_that_followers_do_not_get_in_time_is_not_acknowledged():
    ground = Ground()
    ground.holding = True
    commit, fetch = ground.commit({("t", 0): 1}), ground.fetch(stable=True)
    ground.pass_time(5_000)
    code = ground.answers[commit].topics[0].partitions[0].error_code
    assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ground.answers[fetch].groups[0].error_code == ErrorCode.NOT_COORDINATOR
    ground.release()
    assert ground.positions() == {("t", 0): 1}, "it was in the log all the same"


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
    ground = Ground()
    ground.commit({("t", 0): 1})
    ground.refusing = refusal
    assert ground.commit_codes({("t", 0): 2}) == [told]
    assert ground.positions() == ground.positions(stable=True) == {("t", 0): 1}


def test_an_acknowledged_commit_is_what_is_fetched_after_failover():
    """I29. What was not acknowledged may be lost, and is."""
    ground = Ground()
    (a,), _ = ground.stable()
    ground.commit({("t", 0): 1, ("t", 1): 1}, member=a, generation=1)
    ground.commit({("t", 0): 2}, member=a, generation=1)
    ground.holding = True
    lost = ground.commit({("t", 0): 3}, member=a, generation=1)
    assert lost not in ground.answers
    after = ground.failover()
    assert after.positions() == {("t", 0): 2, ("t", 1): 1}
    assert after.commit_codes({("t", 0): 4}, member=a, generation=1) == [ErrorCode.NONE]


def test_a_new_leader_behind_the_old_ones_high_watermark_does_not_go_back():
    """Rule 9: it has the record, but does not know yet that it is committed. A reader waits rather than begin again
    from an older position."""
    ground = Ground()
    ground.commit({("t", 0): 1})
    ground.commit({("t", 0): 2})
    ground.log.high_watermark = 1
    after = Ground(log=ground.log, now=ground.now)
    fetch = after.fetch()
    assert fetch not in after.answers
    after.release()
    (group,) = after.answers[fetch].groups
    assert group.topics[0].partitions[0].committed_offset == 2


def test_a_position_in_a_deleted_topic_is_not_one_in_a_new_topic_of_its_name():
    ground = Ground()
    ground.commit({("t", 0): 5}, topic_id=b"1" * 16)
    assert ground.positions(topics={"t": [0]}, topic_id=b"1" * 16) == {("t", 0): 5}
    assert ground.positions(topics={"t": [0]}, topic_id=NO_ID) == {("t", 0): 5}
    assert ground.positions(topics={"t": [0]}, topic_id=b"2" * 16) == {("t", 0): -1}


@pytest.mark.parametrize("topics", [{"t": [0]}, None], ids=["named", "all"])
def test_by_name_too_a_position_counts_in_the_topic_that_it_was_committed_in(topics):
    """Before version 10 a request names no id: it means the topic that has the name now."""
    cluster = Cluster(t=1)
    ground = Ground(cluster=cluster)
    ground.commit({("t", 0): 5}, topic_id=cluster.id("t"))
    assert ground.positions(topics=topics) == {("t", 0): 5}
    cluster.make("t", 1)
    assert ground.positions(topics=topics) == ({} if topics is None else {("t", 0): -1})


def test_who_has_not_heard_of_all_topics_cannot_say_which_of_two_ids_is_the_later():
    cluster = Cluster(t=1)
    ground = Ground(cluster=cluster)
    ground.commit({("t", 0): 5}, topic_id=b"9" * 16)
    cluster.is_complete = False
    answer = ground.answers[ground.fetch(topics={"t": [0]})].groups[0]
    assert (answer.error_code, answer.topics) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


def test_positions_in_a_replaced_topic_are_forgotten_and_those_in_the_new_one_kept():
    cluster = Cluster(t=2)
    ground = Ground(cluster=cluster)
    ground.commit({("t", 0): 5}, topic_id=cluster.id("t"))
    ground.commit({("t", 0): 6}, group="h")
    cluster.make("t", 2)
    ground.commit({("t", 1): 7}, topic_id=cluster.id("t"))
    ground.carry_out(ground.coordinator.topics_deleted(["t"], ground.now))
    assert ground.positions() == ground.failover().positions() == {("t", 1): 7}
    assert ground.positions("h") == {}, "nobody knows which topic that was"


def test_positions_in_deleted_topics_are_forgotten():
    ground = Ground()
    ground.commit({("t", 0): 5, ("u", 0): 6})
    ground.commit({("t", 1): 5}, group="h")
    ground.carry_out(ground.coordinator.topics_deleted(["t"], ground.now))
    assert ground.positions() == {("u", 0): 6}
    assert ground.positions("h") == {}
    assert ground.failover().positions() == {("u", 0): 6}


# Expiry.


def test_positions_of_an_abandoned_simple_group_expire_and_the_group_with_them():
    ground = Ground()
    ground.commit({("t", 0): 1})
    ground.pass_time(WEEK - 20 * MINUTE)
    ground.commit({("t", 1): 1})
    ground.pass_time(30 * MINUTE)
    assert ground.positions() == {("t", 1): 1}
    ground.pass_time(WEEK)
    assert ground.positions() == {}
    assert "g" not in ground.machine.groups
    assert ground.log.keys_and_values()[-1][1] is None, "tombstones, so that compaction forgets it too"


def test_positions_of_an_empty_group_count_from_when_its_last_member_left():
    ground = Ground()
    (a,), _ = ground.stable(session=1_800_000)
    ground.commit({("t", 0): 1}, member=a, generation=1)
    for _ in range(WEEK // 1_500_000):
        ground.pass_time(1_500_000)
        assert ground.heartbeat(a, 1) == ErrorCode.NONE
    ground.leave(a)
    ground.pass_time(WEEK - 20 * MINUTE)
    assert ground.positions() == {("t", 0): 1}
    ground.pass_time(40 * MINUTE)
    assert ground.positions() == {}


def test_positions_stay_while_the_group_subscribes_to_the_topic():
    ground = Ground()
    (a,), _ = ground.stable(session=1_800_000)
    ground.commit({("t", 0): 1, ("unsubscribed", 0): 1}, member=a, generation=1)
    for _ in range(WEEK // 1_500_000 + 2):
        ground.pass_time(1_500_000)
        ground.heartbeat(a, 1)
    assert ground.positions() == {("t", 0): 1}


def test_a_group_without_positions_takes_no_memory():
    ground = Ground()
    for number in range(3):
        ground.commit({("t", 0): 1}, group=f"g{number}")
    assert repr(ground.machine.offsets) == "<OffsetTable of 3 groups>"
    ground.pass_time(WEEK + MINUTE)
    assert repr(ground.machine.offsets) == "<OffsetTable of 0 groups>"


def test_an_old_clients_own_retention_time_is_kept():
    ground = Ground()
    ground.commit({("t", 0): 1}, version=4, retention=60 * MINUTE)
    ground.commit({("t", 1): 1}, version=4)
    ground.pass_time(55 * MINUTE)
    assert ground.positions() == {("t", 0): 1, ("t", 1): 1}
    ground.pass_time(20 * MINUTE)
    assert ground.positions() == {("t", 1): 1}


def test_many_expired_groups_go_in_several_batches():
    ground = Ground()
    for number in range(30):
        ground.commit({("t", partition): 1 for partition in range(100)}, group=f"g{number}")
    before = len(ground.log.batches)
    ground.pass_time(WEEK + 11 * MINUTE)
    assert ground.machine.groups == {}
    assert len(ground.log.batches) > before + 2
