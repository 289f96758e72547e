"""What operators do to the tree itself: nodes below /admin that ask for something, /controller that goes, and a store
that is silent for a while."""

import json
from collections import deque

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller import tree
from tidelog.controller.journal import CHUNK
from tidelog.effects import Reply
from tidelog.errors import ErrorCode
from tidelog.ports import Create, Delete
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest


class Sized(deque):
    """Lists of operations to come, and how long each one was."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def append(self, item):
        self.sizes.append(len(item[3]))
        super().append(item)


@pytest.fixture
def cluster():
    return FakeCluster().start()


def preferred(*partitions):
    named = [{"topic": topic, "partition": index} for topic, index in partitions]
    return json.dumps({"version": 1, "partitions": named}).encode()


def away_from_home(cluster):
    """Topic t, whose two partitions prefer broker 1 and are led by others."""
    cluster.create("t", assignments={0: [1, 0, 2], 1: [1, 2, 0]})
    cluster.brokers[1].stop_cleanly()
    cluster.settle()
    cluster.brokers[1].start()
    cluster.settle()
    cluster.catch_up()
    assert 1 not in leaders(cluster)


def leaders(cluster):
    return [cluster.partition("t", index).state.leader for index in range(2)]


def test_a_node_has_first_replicas_elected_and_goes(cluster):
    away_from_home(cluster)
    cluster.by_hand(Create(tree.PREFERRED_ELECTION, preferred(("t", 1), ("t", 9), ("none", 0))))
    assert leaders(cluster)[1] == 1
    assert leaders(cluster)[0] != 1
    assert tree.PREFERRED_ELECTION not in cluster.tree.nodes


def test_a_node_that_was_written_while_nobody_led_is_found_by_the_next_controller(cluster):
    away_from_home(cluster)
    cluster.by_hand(Delete(tree.CONTROLLER), Create(tree.PREFERRED_ELECTION, preferred(("t", 0), ("t", 1))))
    assert leaders(cluster) == [1, 1]
    assert cluster.leader.controller.epoch == 2
    assert tree.PREFERRED_ELECTION not in cluster.tree.nodes


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"partitions":[{"topic":"t"}]}', b"\xff"])
def test_a_node_of_another_form_goes_and_changes_nothing(cluster, content):
    away_from_home(cluster)
    before = leaders(cluster)
    cluster.by_hand(Create(tree.PREFERRED_ELECTION, content))
    assert leaders(cluster) == before
    assert tree.PREFERRED_ELECTION not in cluster.tree.nodes
    assert len(cluster.kinds("election.unreadable")) == 1


def test_a_mark_deletes_the_topic(cluster):
    cluster.create("t", 3, 3)
    cluster.by_hand(Create(tree.delete_path("t")))
    assert "t" not in cluster.state.topics
    assert tree.topic_path("t") not in cluster.tree.nodes
    assert tree.delete_path("t") not in cluster.tree.nodes
    assert [len(broker.deleted) for broker in cluster.brokers.values()] == [3, 3, 3]


def test_a_mark_of_no_topic_goes(cluster):
    cluster.by_hand(Create(tree.delete_path("none")))
    assert tree.delete_path("none") not in cluster.tree.nodes


def test_many_marks_of_no_topic_go_in_lists_that_a_store_takes(cluster):
    marks = [tree.delete_path(f"none{number}") for number in range(2 * CHUNK)]
    cluster.stores = Sized()
    cluster.by_hand(*map(Create, marks))
    assert not set(marks) & set(cluster.tree.nodes)
    assert max(cluster.stores.sizes) == CHUNK + 1, "with the check of the epoch"


def test_a_mark_goes_where_topics_may_not_be_deleted():
    cluster = FakeCluster(delete_topic_enable="false").start()
    cluster.create("t", 3, 3)
    cluster.by_hand(Create(tree.delete_path("t")))
    assert "t" in cluster.state.topics
    assert tree.delete_path("t") not in cluster.tree.nodes


def delete(cluster):
    cluster.submit(DeleteTopicsRequest(topic_names=["t"], timeout_ms=0))


def stuck(cluster):
    """Topic t, being deleted, a replica of which is on a dead broker."""
    cluster.create("t", 2, 3)
    cluster.brokers[2].kill()
    cluster.settle()
    delete(cluster)
    cluster.settle()
    assert tree.delete_path("t") in cluster.tree.nodes
    assert cluster.state.topics["t"].deleted


def test_a_stuck_deletion_is_freed_without_its_mark_by_a_new_controller(cluster):
    stuck(cluster)
    cluster.by_hand(Delete(tree.delete_path("t")), Delete(tree.CONTROLLER))
    assert not cluster.state.topics["t"].deleted
    assert {partition.state.leader for partition in cluster.state.topics["t"].partitions.values()} <= {0, 1}
    assert all(("t", index) in cluster.brokers[broker].roles for broker in (0, 1) for index in (0, 1))
    cluster.brokers[2].start()
    cluster.settle()
    delete(cluster)
    cluster.settle()
    assert tree.topic_path("t") not in cluster.tree.nodes


def test_a_stuck_deletion_is_freed_without_the_topics_nodes_by_a_new_controller(cluster):
    stuck(cluster)
    nodes = sorted((path for path in cluster.tree.nodes if (path + "/").startswith("/brokers/topics/t/")), reverse=True)
    cluster.by_hand(*(Delete(path) for path in nodes), Delete(tree.delete_path("t")), Delete(tree.CONTROLLER))
    assert "t" not in cluster.state.topics
    assert cluster.create("t", 1, 2).error_code == 0


def asked(cluster):
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    return cluster.submit(CreateTopicsRequest(topics=[topic]))


def test_a_controller_whose_store_is_silent_commands_nothing_and_leads_again_if_its_session_went_on(cluster):
    leader = cluster.brokers[0]
    token = asked(cluster)
    effects = leader.controller.store_silent(cluster.now)
    (refusal,) = [effect for effect in effects if isinstance(effect, Reply)]
    assert (refusal.token, refusal.response.topics[0].error_code) == (token, ErrorCode.NOT_CONTROLLER)
    assert (leader.controller.leading, leader.controller.leader_id) == (False, -1)
    cluster.stores.clear()  # it was not heard
    leader.run(leader.controller.store_event(tree.CONTROLLER, cluster.now))
    cluster.settle()
    assert (cluster.leader, leader.controller.epoch) == (leader, 1)
    assert cluster.create("t", 3, 3).error_code == 0


def test_a_controller_whose_store_was_silent_follows_whom_others_elected_meanwhile(cluster):
    old = cluster.brokers[0]
    old.run(old.controller.store_silent(cluster.now))
    cluster.by_hand(Delete(tree.CONTROLLER))
    old.run(old.controller.store_event(tree.CONTROLLER, cluster.now))
    cluster.settle()
    assert [broker.controller.leading for broker in cluster.brokers.values()].count(True) == 1
    assert cluster.leader.controller.epoch == 2
    assert {broker.controller.leader_id for broker in cluster.brokers.values()} == {cluster.leader.id}
