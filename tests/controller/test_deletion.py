"""Topics that go, and the topic that will not die because a replica's broker is down (seed 004)."""

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller import tree
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID
from tidelog.ports import Create
from tidelog.wire.messages.cluster.brokers import UnregisterBrokerRequest
from tidelog.wire.messages.cluster.controller_pushes import StopReplicaRequest
from tidelog.wire.messages.topics.reassignments import ElectLeadersRequest
from tidelog.wire.messages.topics.topic_changes import DeleteTopicsRequest, DeleteTopicState


@pytest.fixture
def cluster():
    cluster = FakeCluster().start()
    assert cluster.create("t", 4, 3).error_code == 0
    return cluster


def delete(cluster, *names, timeout_ms=30_000):
    topics = [DeleteTopicState(name=name) for name in names]
    return cluster.ask(DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms)).responses


def paths(cluster, topic):
    return [path for path in cluster.tree.nodes if topic in path.split("/")]


def test_a_deleted_topic_leaves_nothing(cluster):
    topic_id = cluster.state.topics["t"].id
    (result,) = delete(cluster, "t")
    assert (result.error_code, result.name, result.topic_id) == (0, "t", topic_id)
    assert paths(cluster, "t") == []
    for broker in cluster.brokers.values():
        assert sorted(broker.deleted) == [("t", index) for index in range(4)]
        assert broker.image.topics == {}
        assert broker.image.topic_names == {}
    assert cluster.state.topics == {}


def test_a_replica_is_gone_when_its_broker_has_said_so(cluster):
    broker, asked = cluster.brokers[2], []
    plain = broker.receive

    def first_in_vain(request):
        if isinstance(request, StopReplicaRequest):
            asked.append(paths(cluster, "t") != [])
            if len(asked) == 1:
                return None
        return plain(request)

    broker.receive = first_in_vain
    delete(cluster, "t")
    assert asked == [True, True], "the topic is there until the broker was reached"
    assert paths(cluster, "t") == []


def test_the_name_is_free_when_the_answer_is_there(cluster):
    old = cluster.state.topics["t"].id
    delete(cluster, "t")
    assert cluster.create("t", 2, 2).error_code == 0
    assert cluster.state.topics["t"].id != old
    assert cluster.brokers[0].image.topics["t"].id == cluster.state.topics["t"].id


def test_deletion_by_id_and_by_old_requests(cluster):
    cluster.create("u", 1, 1)
    topic_id = cluster.state.topics["t"].id
    request = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id)], timeout_ms=1000)
    (result,) = cluster.ask(request).responses
    assert (result.error_code, result.name) == (0, "t")
    (result,) = cluster.ask(DeleteTopicsRequest(topic_names=["u"], timeout_ms=1000)).responses
    assert (result.error_code, result.name) == (0, "u")
    assert cluster.state.topics == {}


def test_refusals_name_what_was_asked(cluster):
    topic_id = cluster.state.topics["t"].id
    wishes = [
        (DeleteTopicState(name="missing"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (DeleteTopicState(topic_id=b"x" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
        (DeleteTopicState(name=None, topic_id=NO_ID), ErrorCode.INVALID_REQUEST),
        (DeleteTopicState(name="t", topic_id=topic_id), ErrorCode.INVALID_REQUEST),
    ]
    responses = cluster.ask(DeleteTopicsRequest(topics=[wish for wish, _ in wishes], timeout_ms=1000)).responses
    assert [response.error_code for response in responses] == [code for _, code in wishes]
    (twice,) = cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")] * 2, timeout_ms=1000)).responses
    assert twice.error_code == ErrorCode.INVALID_REQUEST
    both = [DeleteTopicState(name="t"), DeleteTopicState(topic_id=topic_id)]
    responses = cluster.ask(DeleteTopicsRequest(topics=both, timeout_ms=1000)).responses
    assert [(response.name, response.error_code) for response in responses] == [("t", ErrorCode.INVALID_REQUEST)]
    assert "t" in cluster.state.topics


def test_deletion_may_be_disabled():
    cluster = FakeCluster(1, delete_topic_enable="false").start()
    cluster.create("t", 1, 1)
    (result,) = delete(cluster, "t")
    assert result.error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert "t" in cluster.state.topics


def test_a_topic_with_a_replica_on_a_dead_broker_stays_marked_until_it_returns(cluster):
    cluster.brokers[2].kill()
    cluster.settle()
    (result,) = delete(cluster, "t")
    assert result.error_code == 0
    assert cluster.brokers[0].image.topics == {}
    assert cluster.tree.children(tree.DELETE_TOPICS) == ("t",)
    assert tree.topic_path("t") in cluster.tree.nodes
    assert cluster.create("t", 1, 1).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    (again,) = delete(cluster, "t")
    assert again.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.brokers[2].start()
    cluster.settle()
    assert sorted(cluster.brokers[2].deleted) == [("t", index) for index in range(4)]
    assert paths(cluster, "t") == []
    assert cluster.create("t", 1, 1).error_code == 0


def test_another_controller_goes_on_with_a_deletion(cluster):
    cluster.brokers[2].kill()
    cluster.settle()
    delete(cluster, "t")
    cluster.brokers[0].kill()
    cluster.settle()
    assert cluster.leader.id == 1
    assert cluster.brokers[1].image.topics == {}
    cluster.brokers[2].start()
    cluster.settle()
    assert paths(cluster, "t") != []
    cluster.brokers[0].start()
    cluster.settle()
    assert paths(cluster, "t") == []


@pytest.mark.parametrize("multis", range(5))
def test_a_controller_that_dies_while_it_removes_nodes_is_followed_up(cluster, multis):
    cluster.create("wide", 600, 2)
    token = cluster.submit(DeleteTopicsRequest(topics=[DeleteTopicState(name="wide")], timeout_ms=1000))
    for _ in range(200):
        if cluster.kinds("topic.deleted"):
            break
        if any(len(broker.deleted) for broker in cluster.brokers.values()) and cluster.stores:
            if multis == 0:
                break
            multis -= 1
        cluster.step_any()
    cluster.stores.clear()
    cluster.brokers[0].kill()
    cluster.settle()
    cluster.brokers[0].start()
    cluster.settle()
    assert paths(cluster, "wide") == []
    assert cluster.replies.get(token) is None or cluster.replies[token].responses[0].error_code in (0, 41)


def test_a_live_broker_that_hangs_makes_the_deletion_time_out(cluster):
    deaf = cluster.brokers[2]
    deaf.alive = False
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=3000)
    token = cluster.submit(request)
    for _ in range(1000):
        cluster.step_any()
    assert cluster.replies[token].responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    deaf.alive = True
    cluster.settle()
    assert paths(cluster, "t") == []


def test_a_replica_in_a_failed_folder_holds_the_deletion_up_until_its_broker_restarts(cluster):
    cluster.brokers[2].failed_folders.add(("t", 1))
    delete(cluster, "t", timeout_ms=100)
    assert paths(cluster, "t") != []
    cluster.brokers[2].failed_folders.clear()
    cluster.brokers[2].kill()
    cluster.brokers[2].start()
    cluster.settle()
    assert paths(cluster, "t") == []


def unregister(cluster, broker):
    return ErrorCode(cluster.ask(UnregisterBrokerRequest(broker_id=broker)).error_code)


def test_an_election_for_all_topics_leaves_out_what_is_being_deleted(cluster):
    assert cluster.create("u", 1, 1).error_code == 0
    cluster.brokers[2].kill()
    cluster.settle()
    delete(cluster, "t")
    assert paths(cluster, "t") != []
    answer = cluster.ask(ElectLeadersRequest(election_type=0, topic_partitions=None))
    assert [result.topic for result in answer.replica_election_results] == ["u"]


def test_unregistering_a_dead_broker_frees_what_waits_for_it(cluster):
    assert unregister(cluster, 2) == ErrorCode.INVALID_REQUEST
    assert unregister(cluster, 9) == ErrorCode.BROKER_ID_NOT_REGISTERED
    cluster.brokers[2].kill()
    cluster.settle()
    delete(cluster, "t")
    assert paths(cluster, "t") != []
    assert unregister(cluster, 9) == ErrorCode.BROKER_ID_NOT_REGISTERED, "nothing waits for it"
    assert unregister(cluster, 2) == ErrorCode.NONE
    cluster.settle()
    assert paths(cluster, "t") == []
    assert unregister(cluster, 2) == ErrorCode.BROKER_ID_NOT_REGISTERED
    cluster.brokers[2].start()
    cluster.settle()
    assert cluster.create("t", 1, 3).error_code == 0


def test_an_unregistered_broker_has_no_options_left(cluster):
    node = Create(tree.broker_config_path("7"), tree.format_config({"log.cleaner.threads": "2"}))
    assert cluster.brokers[1].session.apply([node]).outcome == "ok"
    cluster.brokers[0].kill()
    cluster.settle()
    assert unregister(cluster, 7) == ErrorCode.NONE
    assert tree.broker_config_path("7") not in cluster.tree.nodes
    assert unregister(cluster, 0) == ErrorCode.NONE
    assert "t" in cluster.state.topics
