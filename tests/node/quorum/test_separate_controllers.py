"""Three controllers that are no brokers, and three brokers that are no controllers, as in Kafka's usual layout."""

import pytest

from tests.node.quorum.quorum_cluster import QuorumCluster
from tests.node.quorum.test_kraft_version import ask
from tidelog.effects import PeerRequest
from tidelog.node import fetching
from tidelog.node.peers import Answer
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.records.fetch import FetchRequest
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest

CONTROLLERS, BROKERS = (0, 1, 2), (3, 4, 5)


@pytest.fixture
def cluster():
    made = QuorumCluster(size=6, voters=3, only_controllers=CONTROLLERS).start()
    made.settle()
    return made


def create(cluster, topic):
    """By a broker, which is never the controller."""
    created = CreatableTopic(name=topic, num_partitions=3, replication_factor=3, assignments=[], configs=[])
    answer = ask(cluster, 3, CreateTopicsRequest(topics=[created], timeout_ms=10_000))
    assert [each.error_code for each in answer.topics] == [0], answer


def described(cluster, topic):
    """(controller, brokers, leaders) as a broker shows them."""
    topics = [MetadataRequestTopic(name=topic)]
    answer = ask(cluster, 4, MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    leaders = {each.leader_id for found in answer.topics for each in found.partitions}
    return answer.controller_id, {each.node_id for each in answer.brokers}, leaders


def test_requests_for_the_controller_reach_it_over_its_own_listener(cluster):
    assert cluster.controller() in CONTROLLERS
    create(cluster, "t")
    controller, brokers, leaders = described(cluster, "t")
    assert brokers == set(BROKERS) == leaders
    assert controller in BROKERS  # clients cannot reach the other one
    option = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    changed = AlterConfigsResource(resource_type=2, resource_name="t", configs=[option])
    answer = ask(cluster, 5, IncrementalAlterConfigsRequest(resources=[changed]))
    assert [each.error_code for each in answer.responses] == [0]
    cluster.wait(lambda: all(cluster.nodes[each].broker.topic_config("t").retention_ms == 1_000 for each in BROKERS))


def test_only_requests_for_the_controller_go_to_a_listener_of_controllers(cluster):
    """A broker that is not registered has no other place yet: fetches from it wait."""
    node, peers = cluster.nodes[3], cluster.nodes[3].peers
    for owner in (fetching.OWNER, fetching.EPOCHS_OWNER, fetching.END_OWNER):
        peers.send(PeerRequest(0, FetchRequest(replica_id=3), owner, 7), None, node.now.mono)
        assert peers.answers.pop() == Answer(owner, 7, None)
    assert node.broker.controller.leader_id in CONTROLLERS
    peers.send(PeerRequest(0, MetadataRequest(), "forward", 8), 12, node.now.mono)
    assert not peers.answers


def test_the_next_controller_leads_when_one_is_killed_and_brokers_fail_over(cluster):
    create(cluster, "t")
    before = cluster.controller()
    cluster.kill(before)
    cluster.wait(lambda: cluster.controller() not in (None, before))
    create(cluster, "u")
    cluster.kill(5)
    cluster.wait(lambda: described(cluster, "u")[2] == {3, 4})  # brokers asked the controller to shrink ISRs, too
    cluster.start(before, 5)
    cluster.settle()
    create(cluster, "w")
    assert described(cluster, "w")[2] == set(BROKERS)


def test_a_controller_that_is_no_broker_stops_at_once_and_is_in_no_list_of_brokers(cluster):
    stopped = next(each for each in CONTROLLERS if each != cluster.controller())
    process = cluster.processes[stopped]
    process.give("stop")
    assert cluster.wait(lambda: not process.alive) < 100
    assert process.stopped == ""
    assert set(cluster.tree(3).nodes) >= {f"/brokers/ids/{each}" for each in BROKERS}
    assert not {f"/brokers/ids/{each}" for each in CONTROLLERS} & set(cluster.tree(3).nodes)
