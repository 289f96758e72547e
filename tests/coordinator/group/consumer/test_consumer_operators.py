"""Consumer groups as operators see them: listed, described, deleted, their positions kept and forgotten."""

import pytest

from tests.coordinator.group.consumer.consumer_harness import Cluster, ConsumerHarness
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tidelog.wire.messages.groups.group_admin import DeleteGroupsRequest, DescribeGroupsRequest
from tidelog.wire.messages.transactions.transaction_requests import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


def test_groups_are_listed_by_state_and_type():
    harness = ConsumerHarness()
    harness.member("a").join()
    harness.member("b", group="h").join().leave()
    harness.stable(group="classic")
    both = {"g": ("consumer", "Stable"), "h": ("consumer", "Empty"), "classic": ("classic", "Stable")}
    assert harness.listed() == both
    assert harness.listed(types=["Consumer"]) == {name: both[name] for name in "gh"}
    assert harness.listed(types=["classic"]) == {"classic": both["classic"]}
    assert harness.listed(types=["share"]) == {}
    assert harness.listed(states=["stable"]) == {name: both[name] for name in ("g", "classic")}
    assert harness.listed(states=["EMPTY"], types=["consumer"]) == {"h": both["h"]}


def test_a_group_is_described():
    harness = ConsumerHarness(cluster=Cluster(t=2, u=1))
    harness.member("a", instance="i", topics=("t", "u", "none")).join(rack_id="r")
    harness.member("b", topics=(), pattern="t", assignor="range").join()
    (group,) = harness.described("g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert group.assignor_name == "range"
    first, second = group.members
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("a", "i", "r", 2)
    assert (first.client_id, first.client_host, first.member_type) == ("client", "/127.0.0.1", 1)
    assert first.subscribed_topic_names == ["none", "t", "u"]
    assert (second.subscribed_topic_names, second.subscribed_topic_regex) == ([], "t")
    shown = [(topic.topic_name, topic.partitions) for topic in first.assignment.topic_partitions]
    assert shown == [("t", [0, 1]), ("u", [0])]
    shown = [(topic.topic_name, topic.partitions) for topic in second.target_assignment.topic_partitions]
    assert shown == [("t", [1])]
    harness.cluster.delete("t")
    assert harness.described("g")[0].members[1].target_assignment.topic_partitions == []


def test_what_is_no_consumer_group_is_not_described():
    harness = ConsumerHarness()
    harness.stable(group="classic")
    harness.member("a").join()
    by_id = {group.group_id: group for group in harness.described("none", "classic", "")}
    assert by_id["none"].error_code == by_id["classic"].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert by_id["none"].error_message == "Group none not found."
    assert by_id["classic"].error_message == "Group classic is not a consumer group."
    assert by_id[""].error_code == ErrorCode.INVALID_GROUP_ID
    (dead,) = harness.ask(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert (dead.error_code, dead.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert dead.error_message == "Group g is not a classic group."
    (dead,) = harness.ask(DescribeGroupsRequest(groups=["g"]), 5).groups
    assert (dead.error_code, dead.group_state) == (ErrorCode.NONE, "Dead")


def commit(harness, member, epoch, *numbers, version=10, group="g", topic="t"):
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=harness.cluster.id(topic),
                partitions=[OffsetCommitRequestPartition(partition_index=n, committed_offset=7) for n in numbers],
            )
        ],
    )
    codes = {p.error_code for t in harness.ask(request, version).topics for p in t.partitions}
    (code,) = codes
    return ErrorCode(code)


@pytest.fixture
def two():
    """One member at epoch 4, which has had partition 0 since epoch 2 and 1 since epoch 4."""
    harness = ConsumerHarness(cluster=Cluster(t=2))
    a = harness.member("a").join()
    b = harness.member("b").join()
    harness.settle(a, b)
    b.leave()
    harness.settle(a)
    assert a.epoch == 4
    assert list(harness.consumer_group().members["a"].current.assigned.values()) == [2, 4]
    return harness


@pytest.mark.parametrize(
    ("member", "epoch", "numbers", "version", "code"),
    [
        ("a", 4, (0, 1), 10, ErrorCode.NONE),
        ("a", 4, (0,), 8, ErrorCode.UNSUPPORTED_VERSION),
        ("a", 5, (0,), 10, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 3, (0,), 10, ErrorCode.NONE),
        ("a", 2, (0,), 10, ErrorCode.NONE),
        ("a", 1, (0,), 10, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 3, (0, 1), 10, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 3, (5,), 10, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 4, (0,), 10, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, (0,), 10, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_members_commit_in_their_epoch_or_for_what_they_have_had_since(two, member, epoch, numbers, version, code):
    assert commit(two, member, epoch, *numbers, version=version) == code


def test_anybody_commits_for_a_group_that_nobody_is_in(two):
    two.beat(member_id="a", member_epoch=-1)
    assert commit(two, "", -1, 0) == ErrorCode.NONE
    assert two.state() == "Empty"
    assert two.machine.groups == {}


@pytest.mark.parametrize(
    ("member", "epoch", "code"),
    [
        (None, -1, ErrorCode.NONE),
        ("a", 4, ErrorCode.NONE),
        ("a", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 4, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 4, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.parametrize("stable", [False, True])
def test_who_may_ask_for_positions(two, member, epoch, code, stable):
    group = OffsetFetchRequestGroup(group_id="g", member_id=member, member_epoch=epoch, topics=None)
    answer = two.ask(OffsetFetchRequest(groups=[group], require_stable=stable), 9)
    assert answer.groups[0].error_code == code


@pytest.mark.parametrize(
    ("member", "epoch", "code"),
    [
        ("", -1, ErrorCode.NONE),
        ("a", 4, ErrorCode.NONE),
        ("a", 5, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 4, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_producers_commit_for_members(two, member, epoch, code):
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=1,
        generation_id=epoch,
        member_id=member,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[TxnOffsetCommitRequestPartition()])],
    )
    assert two.ask(request, 4).topics[0].partitions[0].error_code == code


def delete(harness, group="g"):
    (result,) = harness.ask(DeleteGroupsRequest(groups_names=[group]), 2).results
    return ErrorCode(result.error_code)


def test_a_group_is_deleted_when_nobody_is_in_it(two):
    commit(two, "a", 4, 0)
    assert delete(two) == ErrorCode.NON_EMPTY_GROUP
    two.beat(member_id="a", member_epoch=-1)
    assert delete(two) == ErrorCode.NONE
    assert two.listed() == {}
    assert two.positions("g") == {}
    assert delete(two) == ErrorCode.GROUP_ID_NOT_FOUND
    assert two.failover().listed() == {}
    assert two.member("a").join().epoch == 2


def test_positions_are_deleted_in_topics_that_nobody_subscribes_to(two):
    commit(two, "a", 4, 0)
    topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition()])
    request = OffsetDeleteRequest(group_id="g", topics=[topic])
    assert two.ask(request).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    two.beat(member_id="a", member_epoch=-1)
    assert two.ask(request).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert two.positions("g") == {}


def test_positions_of_a_group_stay_while_it_subscribes_and_go_with_it_when_nobody_does():
    harness = ConsumerHarness({"offsets.retention.minutes": "10"}, cluster=Cluster(t=1, u=1))
    member = harness.member("a").join()
    assert commit(harness, "a", 2, 0) == ErrorCode.NONE
    assert commit(harness, "a", 2, 0, topic="u") == ErrorCode.NONE
    for _ in range(60):
        harness.pass_time(30_000)
        member.idle()
    assert harness.positions("g") == {("t", 0): 7}
    member.leave()
    harness.pass_time(1_300_000)
    assert harness.positions("g") == {}
    assert harness.listed() == {}
    assert harness.machine.consumers.newest == {}


def test_a_group_that_was_made_by_a_commit_becomes_a_consumer_group():
    harness = ConsumerHarness()
    harness.commit({("t", 0): 5}, topic_id=NO_ID)
    assert harness.listed() == {"g": ("classic", "Empty")}
    harness.member("a").join()
    assert harness.listed() == {"g": ("consumer", "Stable")}
    assert harness.positions("g") == {("t", 0): 5}
    after = harness.failover()
    assert after.listed() == {"g": ("consumer", "Stable")}
    assert after.positions("g") == {("t", 0): 5}
