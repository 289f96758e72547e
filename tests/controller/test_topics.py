"""CreateTopics and CreatePartitions as Kafka 4.3.1 answers them."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller import tree
from tidelog.controller.commands.topics import count_of, new_topic_id
from tidelog.errors import ErrorCode
from tidelog.model import id_text
from tidelog.wire.messages.cluster.brokers import ControlledShutdownRequest
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
)


@pytest.fixture
def cluster():
    return FakeCluster(num_partitions=4, default_replication_factor=2).start()


def extend(cluster, name, count, assignments=None, **flags):
    given = assignments and [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in assignments]
    topic = CreatePartitionsTopic(name=name, count=count, assignments=given)
    (result,) = cluster.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=1000, **flags)).results
    return result.error_code


def test_defaults_are_the_brokers(cluster):
    result = cluster.create("t")
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 4, 2)
    assert len(result.topic_id) == 16


def test_a_new_topic_is_reported(cluster):
    created = cluster.create("t", 3, 2)
    (event,) = cluster.kinds("topic.created")
    assert event == {
        "topic": "t",
        "topic_id": id_text(created.topic_id),
        "partitions": 3,
        "replication_factor": 2,
    }


def test_the_answer_lists_the_options_in_force(cluster):
    configs = {option.name: option for option in cluster.create("t", configs={"retention.ms": "5000"}).configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5000", 1)
    assert configs["cleanup.policy"].value == "delete"
    assert list(configs) == sorted(configs)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (".", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("gr\u00fcn", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 249, ErrorCode.NONE),
        ("a.b_c-D9", ErrorCode.NONE),
        ("__cluster_metadata", ErrorCode.INVALID_REQUEST),
        ("known.topic", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("known_topic", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("known-topic", ErrorCode.NONE),
    ],
)
def test_names(cluster, name, code):
    assert cluster.create("known.topic").error_code == 0
    result = cluster.create(name)
    assert result.error_code == code, result.error_message
    assert (result.error_message is None) == (code == 0)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"factor": -2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"factor": 0, "partitions": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"partitions": 10_001, "factor": 1}, ErrorCode.POLICY_VIOLATION),
        ({"assignments": {0: (0,)}, "factor": 1}, ErrorCode.INVALID_REQUEST),
        ({"assignments": {0: (0,)}, "partitions": 1}, ErrorCode.INVALID_REQUEST),
        ({"assignments": {0: ()}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {0: (0, 0)}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {0: (0, 9)}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {0: (0, 1), 1: (0,)}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {0: (0,), 2: (1,)}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"configs": {"retention.ms": "soon"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"no.such.option": "1"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"retention.ms": None}}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_requests_that_cannot_be_granted(cluster, fields, code):
    assert cluster.create("t", **fields).error_code == code
    assert "t" not in cluster.state.topics
    assert not any("t" in path.split("/") for path in cluster.tree.nodes)


def test_assignments_by_hand_are_kept_as_given(cluster):
    assert cluster.create("t", assignments={1: (2, 0), 0: (1, 2)}).error_code == 0
    assert cluster.partition("t", 0).replicas == (1, 2)
    assert cluster.partition("t", 1).replicas == (2, 0)
    assert list(cluster.state.topics["t"].assignment.replicas) == [0, 1]


def test_a_dead_broker_cannot_be_assigned_nor_one_that_leaves_alone(cluster):
    cluster.brokers[2].kill()
    cluster.settle()
    assert cluster.create("t", assignments={0: (2,)}).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    cluster.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=cluster.brokers[1].epoch))
    assert cluster.create("t", assignments={0: (1,)}).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.create("t", assignments={0: (1, 0)}).error_code == 0
    assert cluster.partition("t").state.isr == (0,)


def test_validate_only_changes_nothing(cluster):
    nodes = dict(cluster.tree.nodes)
    result = cluster.create("t", 3, 2, validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert cluster.create("t", 3, 9, validate_only=True).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert cluster.tree.nodes == nodes
    assert extend(cluster, "t", 9, validate_only=True) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_one_bad_topic_keeps_no_other_from_being_made(cluster):
    wishes = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("a", "b", "c/d", "a", "e")]
    results = cluster.ask(CreateTopicsRequest(topics=wishes)).topics
    assert {result.name: result.error_code for result in results} == {
        "a": ErrorCode.INVALID_REQUEST,
        "b": 0,
        "c/d": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "e": 0,
    }
    assert sorted(cluster.state.topics) == ["b", "e"]


def test_options_stand_in_the_tree_before_the_topic(cluster):
    cluster.create("t", configs={"cleanup.policy": "compact"})
    node = cluster.tree.nodes[tree.topic_config_path("t")]
    assert tree.parse_config(node.data) == {"cleanup.policy": "compact"}
    assert node.created < cluster.tree.nodes[tree.topic_path("t")].created


def test_replicas_land_on_different_racks():
    cluster = FakeCluster(4, racks=["a", "a", "b", "b"]).start()
    cluster.create("t", 12, 2)
    for partition in cluster.state.topics["t"].partitions.values():
        assert len({broker // 2 for broker in partition.replicas}) == 2


def test_partitions_are_added(cluster):
    cluster.create("t", 2, 2)
    assert extend(cluster, "t", 7) == 0
    topic = cluster.state.topics["t"]
    assert sorted(topic.partitions) == list(range(7))
    assert all(partition.topic is topic for partition in topic.partitions.values())
    assert len(cluster.brokers[0].image.topics["t"].partitions) == 7
    assert tree.parse_assignment(cluster.tree.nodes[tree.topic_path("t")].data).replicas == topic.assignment.replicas
    assert extend(cluster, "t", 8) == 0
    cluster.brokers[0].kill()
    cluster.settle()
    assert len(cluster.state.topics["t"].partitions) == 8


def test_partitions_are_added_from_the_first_broker_on_where_the_topics_own_is_gone(cluster):
    cluster.create("t", assignments={0: (2, 1)})
    cluster.brokers[2].kill()
    cluster.settle()
    assert extend(cluster, "t", 3) == 0
    assert [cluster.partition("t", index).replicas for index in (1, 2)] == [(1, 0), (0, 1)]


def test_partitions_are_added_as_assigned(cluster):
    cluster.create("t", assignments={0: (0, 1)})
    assert extend(cluster, "t", 3, [(1, 2), (2, 0)]) == 0
    assert [cluster.partition("t", index).replicas for index in range(3)] == [(0, 1), (1, 2), (2, 0)]


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("t", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("t", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("u", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 4, [(0, 1)], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [(0,)], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [(0, 8)], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 10_003, None, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_extensions_that_cannot_be(cluster, name, count, assignments, code):
    cluster.create("t", 2, 2)
    assert extend(cluster, name, count, assignments) == code
    assert len(cluster.state.topics["t"].partitions) == 2


def test_a_topic_named_twice_is_not_extended(cluster):
    cluster.create("t", 1, 1)
    topics = [CreatePartitionsTopic(name="t", count=count, assignments=None) for count in (2, 3)]
    results = cluster.ask(CreatePartitionsRequest(topics=topics, timeout_ms=1000)).results
    assert [(result.name, result.error_code) for result in results] == [("t", ErrorCode.INVALID_REQUEST)]


def test_a_topic_id_is_a_random_uuid():
    drawn = bytes(range(16, 0, -1))
    term = SimpleNamespace(entropy=lambda size: drawn[:size], cluster=SimpleNamespace(topic_ids={}))
    assert new_topic_id(term) == UUID(bytes=drawn, version=4).bytes


@pytest.mark.parametrize(("wanted", "count"), [(-1, 7), (-2, 0), (0, 0), (3, 3)])
def test_a_number_of_partitions_that_is_refused_counts_as_none(wanted, count):
    broker = SimpleNamespace(num_partitions=7)
    assert count_of(CreatableTopic(name="t", num_partitions=wanted), broker) == count
