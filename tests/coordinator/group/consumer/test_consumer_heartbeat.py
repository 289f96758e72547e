"""ConsumerGroupHeartbeat of members of the consumer protocol: who may join, what they receive, how they leave."""

from base64 import urlsafe_b64decode

import pytest

from tests.coordinator.group.consumer.consumer_harness import Cluster, ConsumerHarness
from tidelog.coordinator.contract import Change
from tidelog.coordinator.group import records
from tidelog.coordinator.group.consumer.records import PARTITION_METADATA, VALUES
from tidelog.coordinator.group.consumer.sessions import Deadline, deadline_key
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tidelog.wire.records import Record, build

JOIN = {"member_epoch": 0, "rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"], "topic_partitions": []}

SENSELESS = [
    ({"member_id": ""}, "MemberId can't be empty."),
    ({"member_id": " "}, "MemberId can't be empty."),
    ({"member_id": "m", "group_id": ""}, "GroupId can't be empty."),
    ({"member_id": "m", "instance_id": ""}, "InstanceId can't be empty."),
    ({"member_id": "m", "rack_id": ""}, "RackId can't be empty."),
    ({"member_id": "m", "rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
    ({"member_id": "m", "topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
    ({"member_id": "m", "topic_partitions": [TopicPartitions()]}, "TopicPartitions must be empty when (re-)joining."),
    (
        {"member_id": "m", "subscribed_topic_names": None},
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    ({"member_id": "m", "member_epoch": -2}, "InstanceId can't be null."),
    ({"member_id": "m", "member_epoch": -3}, "MemberEpoch is invalid."),
]


@pytest.mark.parametrize(("fields", "text"), SENSELESS)
def test_a_request_that_makes_no_sense(fields, text):
    answer = ConsumerHarness().beat(**(JOIN | fields))
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, text)


def test_before_version_1_the_coordinator_names_who_joins():
    harness = ConsumerHarness()
    answer = harness.beat(version=0, **JOIN)
    assert answer.error_code == ErrorCode.NONE
    assert len(urlsafe_b64decode(answer.member_id + "==")) == 16, "a UUID, as Kafka writes them"
    assert answer.member_id in harness.consumer_group().members
    assert harness.beat(version=0, member_id="", member_epoch=1).error_code == ErrorCode.INVALID_REQUEST


def test_an_assignor_that_is_not_served():
    answer = ConsumerHarness().beat(member_id="m", server_assignor="sticky", **JOIN)
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert answer.error_message == "ServerAssignor sticky is not supported. Supported assignors: uniform, range."


def test_where_nobody_asks_for_an_assignor_the_brokers_first_one_assigns():
    harness = ConsumerHarness()
    harness.member("a").join()
    assigned = [event for event in harness.events if event.kind == "group.assigned"]
    assert assigned[-1].fields["assignor"] == "uniform"


def test_a_member_that_joins_is_told_all_and_later_only_what_is_new():
    harness = ConsumerHarness()
    member = harness.member("a").join()
    assert (member.epoch, member.last.heartbeat_interval_ms, member.last.member_id) == (2, 5000, "a")
    assert member.has == {("t", number) for number in range(4)}
    assert member.idle().assignment is None
    again = member.beat(rebalance_timeout_ms=1000, subscribed_topic_names=["t"])
    assert len(again.assignment.topic_partitions[0].partitions) == 4
    assert harness.state() == "Stable"


def test_an_idle_heartbeat_writes_nothing():
    harness = ConsumerHarness()
    member = harness.member("a").join()
    end = harness.log.end
    member.idle()
    assert harness.log.end == end


def test_a_member_waits_until_the_other_gave_up_what_it_is_to_get():
    harness = ConsumerHarness()
    first = harness.member("a", stubborn=True).join()
    second = harness.member("b").join()
    assert second.has == set()
    first.beat()
    assert first.told == {(harness.cluster.id("t"), number) for number in (0, 1)}
    second.beat()
    assert (second.has, harness.state()) == (set(), "Reconciling")
    assert first.beat().member_epoch == 2
    first.give_up()
    assert first.beat().member_epoch == 3
    second.beat()
    assert (second.has, harness.state()) == ({("t", 2), ("t", 3)}, "Stable")


@pytest.mark.parametrize(
    ("epoch", "owned", "code"),
    [
        (3, None, ErrorCode.NONE),
        (2, [0, 1], ErrorCode.NONE),
        (2, [], ErrorCode.NONE),
        (2, [0, 2], ErrorCode.FENCED_MEMBER_EPOCH),
        (2, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, [], ErrorCode.FENCED_MEMBER_EPOCH),
        (0, None, ErrorCode.INVALID_REQUEST),
        (4, None, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_the_epoch_before_counts_while_the_member_has_nothing_else(epoch, owned, code):
    harness = ConsumerHarness()
    first, second = harness.member("a").join(), harness.member("b").join()
    harness.settle(first, second)
    assert first.epoch == 3
    assert first.has == {("t", 0), ("t", 1)}
    said = None if owned is None else [TopicPartitions(topic_id=harness.cluster.id("t"), partitions=owned)]
    assert harness.beat(member_id="a", member_epoch=epoch, topic_partitions=said).error_code == code


def test_who_begins_anew_under_its_own_name_keeps_what_is_its_own():
    harness = ConsumerHarness()
    member = harness.member("a").join()
    other = harness.member("b").join()
    harness.settle(member, other)
    had, member.epoch = member.has, 0
    assert member.beat().error_code == ErrorCode.NONE
    assert (member.has, member.epoch) == (had, 3)


def test_who_is_unknown():
    harness = ConsumerHarness()
    assert harness.beat(member_id="a", member_epoch=1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    harness.member("a").join()
    answer = harness.beat(member_id="b", member_epoch=1)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert answer.error_message == "Member b is not a member of group g."
    assert harness.beat(member_id="b", member_epoch=-1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat(group_id="h", member_id="b", member_epoch=-1).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_full_group():
    harness = ConsumerHarness({"group.consumer.max.size": "2"})
    members = [harness.member(name).join() for name in "ab"]
    answer = harness.member("c").beat()
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert answer.error_message == "The consumer group has reached its maximum capacity of 2 members."
    members[0].leave()
    harness.member("c").join()


def test_a_member_that_leaves_is_gone_and_the_others_get_what_it_had():
    harness = ConsumerHarness()
    first, second = harness.member("a").join(), harness.member("b").join()
    harness.settle(first, second)
    answer = first.leave()
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, -1)
    harness.settle(second)
    assert len(second.has) == 4
    second.leave()
    assert harness.state() == "Empty"
    assert harness.listed() == {"g": ("consumer", "Empty")}


def test_who_is_not_heard_of_for_a_session_is_fenced():
    harness = ConsumerHarness({"group.consumer.session.timeout.ms": "45000"})
    first, second = harness.member("a").join(), harness.member("b").join()
    for _ in range(5):
        harness.pass_time(9_000)
        first.beat()
    harness.pass_time(1)
    harness.settle(first)
    assert len(first.has) == 4
    assert second.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_cannot_be_fenced_now_is_fenced_later():
    harness = ConsumerHarness()
    harness.member("a").join()
    harness.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    harness.pass_time(50_000)
    assert harness.state() == "Stable"
    harness.refusing = None
    harness.pass_time(1_000)
    assert harness.state() == "Empty"


def test_who_does_not_give_up_in_time_is_fenced():
    harness = ConsumerHarness()
    first = harness.member("a", stubborn=True, rebalance_timeout_ms=10_000).join()
    second = harness.member("b").join()
    first.beat()
    harness.pass_time(9_000)
    assert first.beat().error_code == ErrorCode.NONE
    harness.pass_time(1_001)
    assert first.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    harness.settle(second)
    assert len(second.has) == 4


def test_who_gives_up_in_time_stays():
    harness = ConsumerHarness()
    first = harness.member("a", rebalance_timeout_ms=10_000).join()
    second = harness.member("b").join()
    harness.settle(first, second)
    harness.pass_time(20_000)
    assert first.idle().error_code == ErrorCode.NONE


def test_assignments_are_not_computed_more_often_than_the_interval_allows():
    harness = ConsumerHarness({"group.consumer.assignment.interval.ms": "1000"})
    first = harness.member("a").join()
    second = harness.member("b").join()
    assert (second.epoch, second.has) == (2, set())
    assert harness.state() == "Assigning"
    harness.pass_time(1000)
    harness.settle(first, second)
    assert (len(first.has), len(second.has), first.epoch) == (2, 2, 3)


def test_a_clock_that_is_set_back_holds_up_no_assignment():
    harness = ConsumerHarness({"group.consumer.assignment.interval.ms": "1000"})
    first = harness.member("a").join()
    harness.now = harness.now._replace(wall=harness.now.wall - 3_600_000)
    second = harness.member("b").join()
    harness.settle(first, second)
    assert (len(first.has), len(second.has)) == (2, 2)
    assert harness.state() == "Stable"


# Topics.


def test_topics_that_come_grow_and_go():
    harness = ConsumerHarness(cluster=Cluster(t=2))
    member = harness.member("a", topics=("t", "later")).join()
    assert member.has == {("t", 0), ("t", 1)}
    harness.cluster.make("later", 1)
    harness.change_topics("later")
    harness.settle(member)
    assert member.has == {("t", 0), ("t", 1), ("later", 0)}
    harness.cluster.topics["t"].partitions[2] = None
    harness.change_topics("t")
    harness.settle(member)
    assert ("t", 2) in member.has
    harness.cluster.delete("t")
    harness.change_topics("t")
    harness.settle(member)
    assert member.has == {("later", 0)}


def test_topics_that_nobody_subscribes_to_change_nothing():
    harness = ConsumerHarness()
    member = harness.member("a").join()
    end = harness.log.end
    harness.cluster.make("other", 3)
    harness.change_topics("other", "t", "u")
    member.idle()
    assert (harness.log.end, member.epoch) == (end, 2)


def test_a_change_of_topics_that_could_not_be_written_is_not_forgotten():
    harness = ConsumerHarness()
    member = harness.member("a").join()
    harness.cluster.topics["t"].partitions[4] = None
    harness.change_topics("t")
    harness.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert member.beat().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.refusing = None
    harness.settle(member)
    assert len(member.has) == 5


def test_who_drops_a_topic_loses_it_before_a_new_target():
    harness = ConsumerHarness({"group.consumer.assignment.interval.ms": "60000"})
    member = harness.member("a", topics=("t", "u")).join()
    assert len(member.has) == 6
    member.subscribe("t")
    harness.settle(member)
    assert member.has == {("t", number) for number in range(4)}
    assert harness.state() == "Assigning"


def test_a_new_coordinator_that_has_not_heard_of_all_topics_assigns_nothing_anew():
    harness = ConsumerHarness()
    member = harness.member("a").join()
    topics, harness.cluster.topics, harness.cluster.is_complete = harness.cluster.topics, {}, False
    after = member.harness = harness.failover()
    assert member.beat().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    harness.cluster.topics, harness.cluster.is_complete = topics, True
    assert (member.beat().error_code, member.epoch, len(member.has)) == (ErrorCode.NONE, 2, 4)
    assert after.state() == "Stable"


# Patterns.


def test_a_pattern_finds_topics_now_and_later():
    harness = ConsumerHarness(cluster=Cluster(t1=1, t2=1, u=1))
    member = harness.member("a", topics=(), pattern="t.").join()
    assert member.has == {("t1", 0), ("t2", 0)}
    harness.cluster.make("t3", 1)
    harness.change_topics("t3")
    harness.pass_time(10_001)
    harness.settle(member)
    assert member.has == {("t1", 0), ("t2", 0), ("t3", 0)}
    harness.cluster.delete("t1")
    harness.change_topics("t1")
    harness.pass_time(10_001)
    harness.settle(member)
    assert member.has == {("t2", 0), ("t3", 0)}


def test_patterns_are_not_resolved_again_within_ten_seconds():
    harness = ConsumerHarness(cluster=Cluster(t1=1))
    member = harness.member("a", topics=(), pattern="t.").join()
    member.idle()
    for name in ("t2", "t3"):
        harness.cluster.make(name, 1)
        harness.change_topics(name)
        member.idle()
    assert harness.consumer_group().regexes["t."].topics == {"t1"}
    harness.pass_time(10_001)
    harness.settle(member)
    assert harness.consumer_group().regexes["t."].topics == {"t1", "t2", "t3"}


def test_patterns_are_resolved_again_after_a_while_though_nobody_reported_a_topic():
    harness = ConsumerHarness({"group.consumer.regex.refresh.interval.ms": "20000"}, cluster=Cluster(t1=1))
    member = harness.member("a", topics=(), pattern="t.").join()
    member.idle()
    harness.cluster.make("t2", 1)
    harness.pass_time(10_001)
    harness.settle(member)
    assert member.has == {("t1", 0)}
    harness.pass_time(10_000)
    harness.settle(member)
    assert member.has == {("t1", 0), ("t2", 0)}


def test_a_pattern_and_names_count_together_and_a_pattern_that_nobody_has_is_forgotten():
    harness = ConsumerHarness(cluster=Cluster(t=1, u=1))
    first = harness.member("a", topics=("u",), pattern="t").join()
    assert first.has == {("t", 0), ("u", 0)}
    second = harness.member("b", topics=(), pattern="t").join()
    harness.settle(first, second)
    first.subscribe("u", pattern="")
    assert "t" in harness.consumer_group().regexes
    second.leave()
    assert not harness.consumer_group().regexes
    harness.settle(first)
    assert first.has == {("u", 0)}


def test_a_pattern_is_forgotten_when_its_only_member_takes_another():
    harness = ConsumerHarness(cluster=Cluster(t=1, u=1))
    member = harness.member("a", topics=(), pattern="t").join()
    member.subscribe(pattern="u")
    harness.settle(member)
    assert set(harness.consumer_group().regexes) == {"u"}
    assert member.has == {("u", 0)}


def test_a_pattern_that_is_none():
    answer = ConsumerHarness().beat(
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_regex="[",
        topic_partitions=[],
    )
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.error_message == "SubscribedTopicRegex `[` is not a valid regular expression: missing closing ]."


# Static members.


def test_a_static_member_that_comes_back_has_what_it_had():
    harness = ConsumerHarness()
    first = harness.member("a", instance="i").join()
    other = harness.member("o").join()
    harness.settle(first, other)
    had = first.has
    assert first.leave(-2).member_epoch == -2
    again = harness.member("b", instance="i").join()
    assert again.has == had
    harness.settle(again, other)
    assert (again.has, harness.state()) == (had, "Stable")
    assert first.beat().error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_come_back_is_fenced_with_its_session():
    harness = ConsumerHarness()
    first = harness.member("a", instance="i").join()
    first.leave(-2)
    harness.pass_time(46_000)
    assert harness.state() == "Empty"


def test_a_name_that_is_in_use_is_not_released():
    harness = ConsumerHarness()
    harness.member("a", instance="i").join()
    answer = harness.member("b", instance="i").beat()
    assert answer.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert answer.error_message == (
        "Static member b with instance id i cannot join the group because the instance id is owned by a member."
    )


def test_static_members_are_known_by_both_names():
    harness = ConsumerHarness()
    harness.member("a", instance="i").join()
    assert harness.beat(member_id="a", member_epoch=1, instance_id="j").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat(member_id="b", member_epoch=1, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert harness.beat(member_id="b", member_epoch=-2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID


# Answers wait for the high watermark, readers see what is committed.


def test_a_member_that_joins_anew_under_another_name_lets_the_old_one_go():
    harness = ConsumerHarness()
    first = harness.member("a", instance="i").join()
    first.epoch, first.instance = 0, "j"
    first.join()
    second = harness.member("b", instance="i").join()
    harness.settle(first, second)
    assert len(first.has) == len(second.has) == 2
    first.leave()
    harness.settle(second)
    assert len(second.has) == 4


def test_readers_see_what_is_committed():
    harness = ConsumerHarness()
    harness.member("a").join()
    harness.holding = True
    token = harness.send(ConsumerGroupHeartbeatRequest(group_id="g", member_id="b", **JOIN), 1)
    assert token not in harness.answers
    assert len(harness.machine.consumers.committed["g"].members) == 1
    harness.release()
    assert harness.answers[token].error_code == ErrorCode.NONE
    assert len(harness.described("g")[0].members) == 2


def test_a_failover_finds_everything():
    harness = ConsumerHarness(cluster=Cluster(t=4, u=2))
    members = [
        harness.member("a", instance="i").join(),
        harness.member("b", topics=("u",), pattern="t", assignor="range").join(),
    ]
    harness.settle(*members)
    after = harness.failover()
    assert {**vars(after.consumer_group()), "_topics": None} == {**vars(harness.consumer_group()), "_topics": None}
    for member in members:
        member.harness = after
        assert member.idle().assignment is None
    after.pass_time(46_000)
    assert after.state() == "Empty"


def test_partition_metadata_that_an_older_coordinator_wrote_is_deleted_with_the_next_epoch():
    harness = ConsumerHarness()
    harness.member("a").join()
    old = Change(PARTITION_METADATA(group_id="g"), VALUES[PARTITION_METADATA](topics=[]))
    key, value = records.encode(old)
    harness.log.append(build([Record(0, harness.now.wall, key, value)]))
    harness.log.high_watermark = harness.log.end
    after = harness.failover()
    assert (key, None) not in after.log.keys_and_values()
    after.member("b").join()
    assert (key, None) in after.log.keys_and_values()


def test_nobody_waits_for_a_member_that_left():
    harness = ConsumerHarness()
    member = harness.member("a").join()
    watched = deadline_key(Deadline.SESSION, "g", "a")
    assert harness.machine.shard.has_timer(watched)
    member.leave()
    assert not harness.machine.shard.has_timer(watched)


def test_a_pattern_finds_only_topics_that_its_member_may_describe():
    harness = ConsumerHarness(cluster=Cluster(t1=1, t2=1, u=1))
    harness.may_describe = {"t1", "u"}.__contains__
    member = harness.member("a", topics=(), pattern="t.").join()
    assert member.has == {("t1", 0)}
    harness.may_describe = None
    harness.cluster.make("t3", 1)
    harness.change_topics("t3")
    harness.pass_time(10_001)
    harness.settle(member)
    assert member.has == {("t1", 0), ("t2", 0), ("t3", 0)}


def test_a_group_that_nobody_is_in_expires_and_the_next_one_counts_from_the_start_as_in_kafka():
    harness = ConsumerHarness()
    member = harness.member("a").join()
    first = harness.consumer_group().epoch
    member.leave()
    assert harness.consumer_group().epoch > first
    harness.pass_time(harness.machine.config.offsets_retention_check_interval_ms)
    assert [event.fields for event in harness.events if event.kind == "group.expired"] == [{"group": "g"}]
    assert "g" not in harness.machine.consumers.newest
    harness.member("b").join()
    assert harness.consumer_group().epoch == first
