"""The handlers of the group APIs over a real coordinator: what depends on the version and on the cluster's topics.

Answers go through the codec in the version asked, so that whatever a version cannot carry shows.
"""

from types import SimpleNamespace

import pytest

from tests.coordinator.group.harness import GroupHarness, subscription
from tidelog.api import registry
from tidelog.api.context import Context, Pending
from tidelog.config.broker import BrokerConfig
from tidelog.controller.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from tidelog.effects import CONTROLLER, PeerRequest
from tidelog.errors import ErrorCode
from tidelog.model import GROUP_TOPIC, NO_ID, Endpoint
from tidelog.wire import codec
from tidelog.wire.messages.groups.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.groups.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest

T_ID, GONE_ID = b"t" * 16, b"g" * 16
KNOWN, UNKNOWN = ("t", 0), ("none", 0)


class Broker:
    """One broker that leads every partition of the group topic."""

    def __init__(self, **options):
        self.harness = GroupHarness(options)
        self.image = ClusterImage()
        self.image.brokers[7] = BrokerImage(7, endpoints={"EXTERNAL": Endpoint("EXTERNAL", "PLAINTEXT", "seven", 97)})
        self.add("t", T_ID, 2)
        self.add(GROUP_TOPIC, b"o" * 16, len(self.harness.logs))
        self.asked = []
        self.topics_requested = {}

    def add(self, name, topic_id, partitions):
        self.image.topics[name] = TopicImage(name, topic_id, {i: PartitionImage(leader=7) for i in range(partitions)})
        self.image.topic_names[topic_id] = name

    def remove(self, name):
        del self.image.topic_names[self.image.topics.pop(name).id]

    def send(self, request, version, listener="EXTERNAL"):
        """The token, and the answer if it came at once."""
        harness = self.harness
        seen = SimpleNamespace(
            image=self.image,
            groups=harness.coordinator,
            config=harness.coordinator.config,
            topics_requested=self.topics_requested,
        )
        token = next(harness.tokens)
        context = Context(seen, harness.now, version, "client", 1, listener, "127.0.0.1", "ANONYMOUS", token, [])
        answer = registry.handler(registry.APIS[request.__key__])(request, context)
        self.asked += [effect for effect in context.effects if isinstance(effect, PeerRequest)]
        harness.carry_out([effect for effect in context.effects if not isinstance(effect, PeerRequest)])
        if not isinstance(answer, Pending):
            harness.answers[token] = answer
        return token

    def ask(self, request, version, **how):
        answer = self.harness.answers[self.send(request, version, **how)]
        return through_codec(request.__key__, version, answer)


def through_codec(key, version, answer):
    parts = codec.encode_response(key, version, 1, answer)
    return codec.decode_response(key, version, b"".join(map(bytes, parts))[4:])[1]


def versions(key):
    return range(registry.APIS[key].low, registry.APIS[key].high + 1)


def commit_request(*places, group="g", offset=5):
    topics = [
        OffsetCommitRequestTopic(
            name=name if isinstance(name, str) else "",
            topic_id=NO_ID if isinstance(name, str) else name,
            partitions=[OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)],
        )
        for name, index in places
    ]
    return OffsetCommitRequest(group_id=group, topics=topics)


def codes(answer):
    return {
        (topic.name or topic.topic_id, partition.partition_index): ErrorCode(partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    }


# OffsetCommit.


@pytest.mark.parametrize("version", range(2, 10))
def test_commit_refuses_partitions_that_do_not_exist_and_takes_the_others(version):
    broker = Broker()
    answer = broker.ask(commit_request(("none", 0), ("t", 0), ("t", 9)), version)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(answer) == {("none", 0): unknown, ("t", 0): ErrorCode.NONE, ("t", 9): unknown}
    assert broker.harness.positions() == {("t", 0): 5}


def test_commit_by_topic_id():
    broker = Broker()
    answer = broker.ask(commit_request((GONE_ID, 0), (T_ID, 0), (T_ID, 9)), 10)
    assert codes(answer) == {
        (GONE_ID, 0): ErrorCode.UNKNOWN_TOPIC_ID,
        (T_ID, 0): ErrorCode.NONE,
        (T_ID, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert broker.harness.positions() == {("t", 0): 5}


def test_a_commit_of_nothing_known_does_not_reach_the_group():
    broker = Broker()
    assert codes(broker.ask(commit_request(("none", 0), group="new"), 9)) == {
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    assert broker.ask(commit_request(), 9).topics == []
    assert broker.harness.machine.groups == {}


# OffsetFetch.


@pytest.mark.parametrize("version", range(1, 8))
def test_old_fetches_are_flat(version):
    broker = Broker()
    broker.ask(commit_request(KNOWN), 2)
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    answer = broker.ask(OffsetFetchRequest(group_id="g", topics=topics), version)
    (topic,) = answer.topics
    assert [(p.partition_index, p.committed_offset, p.metadata) for p in topic.partitions] == [(0, 5, ""), (1, -1, "")]


@pytest.mark.parametrize("version", range(2, 8))
def test_old_fetches_of_all_topics(version):
    broker = Broker()
    broker.ask(commit_request(KNOWN), 2)
    answer = broker.ask(OffsetFetchRequest(group_id="g", topics=None), version)
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("t", 1)]


def test_the_oldest_fetch_has_the_groups_code_on_each_partition():
    broker = Broker()
    broker.harness.resign()
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    oldest = broker.ask(OffsetFetchRequest(group_id="g", topics=topics), 1)
    assert oldest.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    newer = broker.ask(OffsetFetchRequest(group_id="g", topics=topics), 2)
    assert (newer.error_code, newer.topics) == (ErrorCode.NOT_COORDINATOR, [])


@pytest.mark.parametrize("version", [8, 9])
def test_a_fetch_of_several_groups(version):
    broker = Broker()
    broker.ask(commit_request(KNOWN), 2)
    broker.ask(commit_request(("t", 1), group="h", offset=6), 2)
    asked = [
        OffsetFetchRequestGroup(group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]),
        OffsetFetchRequestGroup(group_id="h", topics=None),
        OffsetFetchRequestGroup(group_id="nobody", topics=None),
    ]
    answer = broker.ask(OffsetFetchRequest(groups=asked), version)
    found = {
        group.group_id: [(t.name, p.partition_index, p.committed_offset) for t in group.topics for p in t.partitions]
        for group in answer.groups
    }
    assert found == {"g": [("t", 0, 5)], "h": [("t", 1, 6)], "nobody": []}
    assert broker.ask(OffsetFetchRequest(groups=[]), version).groups == []


def test_a_fetch_by_topic_id():
    broker = Broker()
    broker.ask(commit_request(KNOWN), 2)
    topics = [
        OffsetFetchRequestTopics(topic_id=T_ID, partition_indexes=[0]),
        OffsetFetchRequestTopics(topic_id=GONE_ID, partition_indexes=[3]),
    ]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=topics), OffsetFetchRequestGroup(group_id="g", topics=None)]
    named, everything = broker.ask(OffsetFetchRequest(groups=groups), 10).groups
    found = [
        (t.topic_id, p.partition_index, p.committed_offset, p.error_code) for t in named.topics for p in t.partitions
    ]
    assert found == [(T_ID, 0, 5, ErrorCode.NONE), (GONE_ID, 3, -1, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert [topic.topic_id for topic in everything.topics] == [T_ID]
    broker.remove("t")
    (everything,) = broker.ask(OffsetFetchRequest(groups=groups[1:]), 10).groups
    assert everything.topics == [], "a topic that is gone has no id"


@pytest.mark.parametrize("names_it", [True, False])
def test_a_topic_that_is_made_anew_while_its_positions_are_waited_for(names_it):
    """They are not told as those of the topic that has the name now."""
    broker = Broker()
    broker.harness.holding = True
    broker.send(commit_request((T_ID, 0)), 10)
    topics = [OffsetFetchRequestTopics(topic_id=T_ID, partition_indexes=[0])] if names_it else None
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)], require_stable=True)
    token = broker.send(asked, 10)
    assert token not in broker.harness.answers
    broker.remove("t")
    broker.add("t", GONE_ID, 2)
    broker.harness.release()
    (group,) = through_codec(9, 10, broker.harness.answers[token]).groups
    found = [(t.topic_id, p.committed_offset, p.error_code) for t in group.topics for p in t.partitions]
    assert found == ([(T_ID, -1, ErrorCode.UNKNOWN_TOPIC_ID)] if names_it else [])


# FindCoordinator.


@pytest.mark.parametrize("version", range(4))
def test_finding_one_coordinator(version):
    answer = Broker().ask(FindCoordinatorRequest(key="g"), version)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (ErrorCode.NONE, 7, "seven", 97)


@pytest.mark.parametrize("version", range(4, 7))
def test_finding_several_coordinators(version):
    answer = Broker().ask(FindCoordinatorRequest(coordinator_keys=["g", "", "/"]), version)
    assert [(found.key, found.node_id, found.error_code) for found in answer.coordinators] == [
        ("g", 7, ErrorCode.NONE),
        ("", 7, ErrorCode.NONE),
        ("/", 7, ErrorCode.NONE),
    ]


def test_the_controller_is_asked_for_a_topic_once_at_a_time_however_many_ask():
    broker = Broker()
    broker.remove(GROUP_TOPIC)
    for _ in range(200):
        broker.send(FindCoordinatorRequest(key="g"), 3)
        broker.harness.now = broker.harness.now._replace(mono=broker.harness.now.mono + 1)
    assert len(broker.asked) == 2
    assert len(broker.topics_requested) == 1


def test_where_there_is_no_group_topic_the_controller_is_asked_to_make_it():
    broker = Broker(**{"offsets.topic.replication.factor": "2"})
    broker.remove(GROUP_TOPIC)
    answer = broker.ask(FindCoordinatorRequest(key="g"), 3)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        -1,
        "",
        -1,
    )
    (ask,) = broker.asked
    (topic,) = ask.request.topics
    assert (ask.target, topic.name, topic.num_partitions, topic.replication_factor) == (CONTROLLER, GROUP_TOPIC, 1, 2)
    assert {config.name: config.value for config in topic.configs}["cleanup.policy"] == "compact"


def test_a_coordinator_that_cannot_be_reached_is_none():
    broker = Broker()
    away = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.ask(FindCoordinatorRequest(key="g"), 3, listener="OTHER").error_code == away
    broker.image.topics[GROUP_TOPIC].partitions[0].leader = -1
    assert broker.ask(FindCoordinatorRequest(key="g"), 3).error_code == away
    assert broker.ask(FindCoordinatorRequest(key="tx", key_type=1), 3).error_code == away
    assert broker.ask(FindCoordinatorRequest(key="?", key_type=9), 3).error_code == ErrorCode.INVALID_REQUEST


def test_a_group_is_looked_for_among_the_partitions_that_the_topic_really_has():
    """`offsets.topic.num.partitions` may have been changed after the topic was made."""
    broker = Broker()
    broker.harness.coordinator.config = BrokerConfig({})
    assert broker.ask(FindCoordinatorRequest(key="g"), 3).node_id == 7
    assert codes(broker.ask(commit_request(KNOWN), 9)) == {("t", 0): ErrorCode.NONE}


# Members.


@pytest.mark.parametrize("version", versions(11))
def test_every_version_joins_syncs_and_leaves(version):
    broker = Broker()

    def join(member_id):
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
        )

    token = broker.send(join(""), version)
    if version >= 4:
        refused = through_codec(11, version, broker.harness.answers[token])
        assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
        token = broker.send(join(refused.member_id), version)
    broker.harness.pass_time(3_000)
    answer = through_codec(11, version, broker.harness.answers[token])
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (ErrorCode.NONE, 1, "range")
    member = broker.harness.machine.groups["g"].members[answer.member_id]
    assert member.rebalance_timeout_ms == (10_000 if version == 0 else 20_000)

    named = {"protocol_type": "consumer", "protocol_name": "range"}
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=member.member_id, **named)
    assert broker.ask(sync, min(version, 5)).error_code == ErrorCode.NONE
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member.member_id)
    assert broker.ask(beat, min(version, 4)).error_code == ErrorCode.NONE
    leave = LeaveGroupRequest(
        group_id="g", member_id=member.member_id, members=[MemberIdentity(member_id=member.member_id)]
    )
    assert broker.ask(leave, min(version, 5)).error_code == ErrorCode.NONE
    assert broker.harness.machine.groups["g"].members == {}


@pytest.mark.parametrize("version", versions(11))
def test_a_refused_join_can_be_told_in_every_version(version):
    request = JoinGroupRequest(group_id="", session_timeout_ms=10_000, member_id="m", protocol_type="consumer")
    answer = Broker().ask(request, version)
    assert (answer.error_code, answer.member_id) == (ErrorCode.INVALID_GROUP_ID, "m")
    assert answer.protocol_name == (None if version >= 7 else "")


def test_the_newest_sync_must_name_its_protocol():
    broker = Broker()
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", protocol_type="consumer")
    assert broker.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert broker.ask(request, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_old_leave_has_its_members_code_as_its_own():
    broker = Broker()
    broker.harness.stable()
    unknown = LeaveGroupRequest(group_id="g", member_id="x", members=[MemberIdentity(member_id="x")])
    assert broker.ask(unknown, 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    answer = broker.ask(unknown, 3)
    assert (answer.error_code, answer.members[0].error_code) == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)


# Operators.


@pytest.mark.parametrize("version", versions(15))
def test_every_version_describes(version):
    broker = Broker()
    (member,), _ = broker.harness.stable()
    request = DescribeGroupsRequest(groups=["g", "none"], include_authorized_operations=True)
    group, none = broker.ask(request, version).groups
    assert (group.group_state, group.members[0].member_id) == ("Stable", member)
    assert none.group_state == "Dead"
    if version >= 3:
        assert group.authorized_operations == 3400
        assert none.authorized_operations == (-2147483648 if version >= 6 else 3400)


@pytest.mark.parametrize("version", versions(16))
def test_every_version_lists(version):
    broker = Broker()
    broker.harness.stable()
    (group,) = broker.ask(ListGroupsRequest(), version).groups
    assert (group.group_id, group.protocol_type) == ("g", "consumer")


@pytest.mark.parametrize("version", versions(42))
def test_every_version_deletes(version):
    broker = Broker()
    broker.ask(commit_request(KNOWN), 2)
    (result,) = broker.ask(DeleteGroupsRequest(groups_names=["g"]), version).results
    assert (result.group_id, result.error_code) == ("g", ErrorCode.NONE)


def test_offsets_are_deleted_where_the_partition_exists():
    broker = Broker()
    broker.ask(commit_request(("t", 0), ("t", 1)), 2)

    def request(group):
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for name, indexes in (("none", [0]), ("t", [0, 9]))
        ]
        return OffsetDeleteRequest(group_id=group, topics=topics)

    answer = broker.ask(request("g"), 0)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}
    assert found == {("none", 0): unknown, ("t", 9): unknown, ("t", 0): ErrorCode.NONE}
    assert broker.harness.positions() == {("t", 1): 5}
    refused = broker.ask(request("nobody"), 0)
    assert (refused.error_code, refused.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
