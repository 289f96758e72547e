import pytest

from tests.api.fake_context import add_topic, context, finished, image
from tidelog.api.cluster import describe_cluster
from tidelog.api.topics import describe_topic_partitions, metadata
from tidelog.effects import CONTROLLER, PeerRequest
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID
from tidelog.wire.messages.cluster.brokers import DescribeClusterRequest
from tidelog.wire.messages.topics.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    TopicRequest,
)


def ask(given, *names, topics=None, **fields):
    wanted = [MetadataRequestTopic(name=name) for name in names] if topics is None else topics
    return finished(metadata.handle(MetadataRequest(topics=wanted, **fields), given))


def test_brokers_are_listed_by_the_listener_that_is_asked():
    response = ask(context(image(hidden=(2,))))
    assert [(b.node_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (0, "host-0", 9000, "rack-0"),
        (1, "host-1", 9001, "rack-1"),
    ]
    assert (response.cluster_id, response.controller_id) == ("cluster-id", 1)
    inner = ask(context(listener="REPLICATION"))
    assert [b.port for b in inner.brokers] == [9100, 9101, 9102]


def test_a_dead_controller_is_replaced_by_a_live_broker():
    found = image((0, 2))
    assert ask(context(found)).controller_id == 0
    assert ask(context(image(()))).controller_id == -1


@pytest.mark.parametrize(
    ("version", "topics", "all_of_them"), [(0, [], True), (1, [], False), (1, None, True), (13, None, True)]
)
def test_null_means_all_topics_and_empty_none_but_in_version_0(version, topics, all_of_them):
    found = image()
    add_topic(found, "t", 0)
    add_topic(found, "u", 1)
    response = finished(metadata.handle(MetadataRequest(topics=topics), context(found, version)))
    assert [topic.name for topic in response.topics] == (["t", "u"] if all_of_them else [])


def test_partitions_are_reported_in_order_with_leader_epoch_and_replicas():
    found = image((0, 1))
    topic_id = add_topic(found, "__consumer_offsets", 0, 1, offline=[1])
    (topic,) = ask(context(found), "__consumer_offsets").topics
    assert (topic.error_code, topic.topic_id, topic.is_internal) == (0, topic_id, True)
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    first = topic.partitions[0]
    assert (first.error_code, first.leader_id, first.leader_epoch) == (0, 0, 5)
    assert (first.replica_nodes, first.isr_nodes, first.offline_replicas) == ([0, 1, 2], [0, 1], [1, 2])


def test_version_0_leaves_unreachable_replicas_out_with_an_error():
    found = image((0, 1))
    add_topic(found, "t", 0)
    (topic,) = ask(context(found, 0), "t").topics
    partition = topic.partitions[0]
    assert (partition.error_code, partition.replica_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, [0, 1])


@pytest.mark.parametrize(
    ("version", "leader", "code"),
    [
        (13, 2, ErrorCode.LISTENER_NOT_FOUND),
        (5, 2, ErrorCode.LEADER_NOT_AVAILABLE),
        (13, 7, ErrorCode.LEADER_NOT_AVAILABLE),
        (13, -1, ErrorCode.LEADER_NOT_AVAILABLE),
    ],
)
def test_a_leader_that_cannot_be_reached_is_none(version, leader, code):
    found = image(hidden=(2,))
    add_topic(found, "t", leader)
    (topic,) = ask(context(found, version), "t").topics
    assert (topic.partitions[0].error_code, topic.partitions[0].leader_id) == (code, -1)
    assert topic.error_code == 0


def test_topics_are_found_by_id():
    found = image()
    topic_id = add_topic(found, "t", 0)
    other = b"?" * 16
    wanted = [MetadataRequestTopic(topic_id=topic_id, name=None), MetadataRequestTopic(topic_id=other, name=None)]
    known, unknown = ask(context(found), topics=wanted).topics
    assert (known.error_code, known.name, known.topic_id) == (0, "t", topic_id)
    assert (unknown.error_code, unknown.name, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, other)


@pytest.mark.parametrize(
    ("version", "by_id", "code"),
    [
        (10, True, ErrorCode.INVALID_REQUEST),
        (11, False, ErrorCode.INVALID_REQUEST),
        (13, False, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_topic_without_a_name_is_refused_as_a_whole(version, by_id, code):
    found = image()
    topic_id = add_topic(found, "t", 0)
    wanted = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name=None, topic_id=topic_id if by_id else NO_ID)]
    response = ask(context(found, version), topics=wanted)
    assert (response.brokers, response.controller_id, response.error_code) == ([], -1, code)
    assert [topic.error_code for topic in response.topics] == [code, code]


def test_missing_topics_are_requested_from_the_controller_and_answered_as_unknown():
    given = context()
    response = ask(given, "new", "bad/name", "new")
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("bad/name", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    (wish,) = given.effects
    assert isinstance(wish, PeerRequest)
    assert wish.target == CONTROLLER
    assert [(t.name, t.num_partitions, t.replication_factor) for t in wish.request.topics] == [("new", -1, -1)]


def test_internal_topics_are_requested_as_their_options_say():
    given = context(offsets_topic_num_partitions="7", offsets_topic_replication_factor="1")
    ask(given, "__consumer_offsets", "__transaction_state")
    offsets, transactions = given.effects[0].request.topics
    assert (offsets.num_partitions, offsets.replication_factor) == (7, 1)
    assert {config.name: config.value for config in offsets.configs}["cleanup.policy"] == "compact"
    assert {config.name: config.value for config in transactions.configs}["min.insync.replicas"] == "2"


@pytest.mark.parametrize(
    ("options", "fields"), [({"auto_create_topics_enable": "false"}, {}), ({}, {"allow_auto_topic_creation": False})]
)
def test_nothing_is_made_where_that_is_not_wanted(options, fields):
    given = context(**options)
    (topic,) = ask(given, "new", **fields).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert given.effects == []


def test_authorized_operations_are_reported_on_request():
    found = image()
    add_topic(found, "t", 0)
    silent = ask(context(found, 8), "t")
    assert silent.cluster_authorized_operations == silent.topics[0].topic_authorized_operations == -(2**31)
    told = ask(
        context(found, 8), "t", include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    assert told.topics[0].topic_authorized_operations == 3576
    assert told.cluster_authorized_operations == 8096


def test_describe_cluster():
    response = describe_cluster.handle(DescribeClusterRequest(), context(version=2))
    assert [broker.broker_id for broker in response.brokers] == [0, 1, 2]
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, "cluster-id", 1)
    assert response.cluster_authorized_operations == -(2**31)
    controllers = describe_cluster.handle(DescribeClusterRequest(endpoint_type=2), context(version=2))
    assert controllers.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    neither = describe_cluster.handle(DescribeClusterRequest(endpoint_type=3), context(version=2))
    assert neither.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def describe(found, *names, limit=2000, cursor=None):
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
    )
    return finished(describe_topic_partitions.handle(request, context(found, 0)))


def pages(found, *names, limit):
    """What a client collects by following the cursor."""
    collected, cursor = [], None
    for _ in range(50):
        response = describe(found, *names, limit=limit, cursor=cursor)
        for topic in response.topics:
            collected += [(topic.name, partition.partition_index) for partition in topic.partitions]
        if response.next_cursor is None:
            return collected
        following = response.next_cursor
        cursor = Cursor(topic_name=following.topic_name, partition_index=following.partition_index)
    raise AssertionError("the cursor does not end")


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 100])
def test_pages_hold_every_partition_once_in_order(limit):
    found = image()
    for name, count in (("b", 3), ("a", 2), ("c", 2)):
        add_topic(found, name, *[0] * count)
    everything = [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("c", 1)]
    assert pages(found, limit=limit) == everything
    assert pages(found, "c", "b", limit=limit) == everything[2:]


def test_described_partitions_have_eligible_leaders_and_the_last_leader():
    found = image()
    add_topic(found, "t", -1)
    found.topics["t"].partitions[0].elr, found.topics["t"].partitions[0].last_leader = [1, 2], 2
    (partition,) = describe(found, "t").topics[0].partitions
    assert (partition.leader_id, partition.eligible_leader_replicas, partition.last_known_elr) == (-1, [1, 2], [2])


def test_described_partitions_have_no_eligible_leaders_and_unknown_topics_an_error():
    found = image()
    add_topic(found, "t", 2)
    response = describe(found, "t", "missing", "bad/name")
    by_name = {topic.name: topic for topic in response.topics}
    partition = by_name["t"].partitions[0]
    assert (partition.leader_id, partition.eligible_leader_replicas, partition.last_known_elr) == (2, [], [])
    assert by_name["t"].topic_authorized_operations == 3576
    assert by_name["missing"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_name["bad/name"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("cursor", [Cursor(topic_name="t", partition_index=-1), Cursor(topic_name="u")])
def test_a_cursor_must_point_into_what_is_asked(cursor):
    found = image()
    add_topic(found, "t", 0)
    assert [topic.error_code for topic in describe(found, "t", cursor=cursor).topics] == [ErrorCode.INVALID_REQUEST]
