"""The controller is killed at each step of what it is asked for: a topic made, grown, deleted, its replicas moved, its
leader elected. A step is a commit in the tree; the kill comes between the commit and the controller's hearing of it.

Afterwards another controller leads. What was asked is asked again where it was not done; then it ends right, every
invariant held after each step, and nothing is left behind: neither in the tree nor on disks.
"""

import pytest

from tidelog.client.admin import ANY
from tidelog.model import TopicPartition
from tidelog.sim.cluster import Cluster
from tidelog.sim.world import ROOT
from tidelog.wire.messages.topics.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.topics.elect_leaders import ElectLeadersRequest, TopicPartitions

TOPIC = "wanted"
FIRST = TopicPartition(TOPIC, 0)
STEPS = range(6)


class Commits:
    """Counts the commits that touch topics, their partitions and marks: an observer of the world."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.count = 0
        self.last = self.look()
        cluster.world.observers.append(self)

    def look(self):
        nodes = self.cluster.world.tree.nodes
        return {path: node.version for path, node in nodes.items() if path.startswith(("/brokers/topics/", "/admin/"))}

    def tree_changed(self, _world):
        now = self.look()
        self.count += now != self.last
        self.last = now

    def __getattr__(self, _name):
        return lambda *_given, **_named: None


def targets(cluster):
    """Three brokers, the last of which does not hold the first partition."""
    now = cluster.suite.ghosts.assignments.get(FIRST, (0, 1, 2))
    other = next(host.broker_id for host in cluster.world.hosts if host.broker_id not in now)
    return [now[1], now[2], other]


def create(_cluster):
    return CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=3)])


def grow(_cluster):
    return CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=TOPIC, count=5, assignments=None)])


def delete(_cluster):
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=5_000)


def move(cluster):
    wish = ReassignablePartition(partition_index=0, replicas=targets(cluster))
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=TOPIC, partitions=[wish])])


def elect(_cluster):
    return ElectLeadersRequest(election_type=0, topic_partitions=[TopicPartitions(topic=TOPIC, partitions=[0])])


def is_created(cluster):
    return len([name for name in cluster.suite.ghosts.states if name.topic == TOPIC]) == 3


def is_grown(cluster):
    return len([name for name in cluster.suite.ghosts.states if name.topic == TOPIC]) == 5


def is_deleted(cluster):
    nodes = [path for path in cluster.world.tree.nodes if TOPIC in path.split("/")]
    running = [host for host in cluster.world.hosts if host.life is not None]
    return not nodes and not any(left(host) for host in running)


def left(host):
    """The topic's folders on a disk; one that lost its topic's id with the power holds nothing and is nobody's."""
    names = [name for name in host.disk.list(ROOT) if name.startswith(f"{TOPIC}-")]
    return [name for name in names if host.disk.exists(f"{ROOT}/{name}/partition.metadata")]


def is_moved(cluster):
    ghosts = cluster.suite.ghosts
    if ghosts.reassigning.get(FIRST) != ((), ()):
        return False
    running = [host for host in cluster.world.hosts if host.life is not None]
    held = {host.broker_id for host in running if host.node.replicas.get(*FIRST) is not None}
    return held == set(ghosts.assignments[FIRST]) and held != cluster.held_before


def is_elected(cluster):
    ghosts = cluster.suite.ghosts
    return ghosts.states[FIRST].leader == ghosts.assignments[FIRST][0]


ASKED = {
    "create": (create, is_created, False),
    "partitions": (grow, is_grown, True),
    "delete": (delete, is_deleted, True),
    "reassign": (move, is_moved, True),
    "elect": (elect, is_elected, True),
}


@pytest.mark.parametrize("how", ["kill", "power loss"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("what", ASKED)
def test_the_controller_dies_at_a_step(what, step, how):
    request, is_done, needs_topic = ASKED[what]
    cluster = Cluster(step, brokers=4, properties={"auto.leader.rebalance.enable": "false"})
    cluster.start()
    if needs_topic:
        cluster.create(TOPIC, 3)
        cluster.expect(lambda: is_created(cluster), 10, "the topic is there")
    if what == "elect":
        lead_elsewhere(cluster)
    cluster.held_before = set(cluster.suite.ghosts.assignments.get(FIRST, ()))
    wish = request(cluster)
    commits, answers = Commits(cluster), []
    cluster.world.after(0, lambda: cluster.admin.ask(wish, ANY, answers.append))
    cluster.world.run(3_000_000, lambda: commits.count > step or bool(answers and not commits.count))
    victim = cluster.controller
    if victim is not None and victim.life is not None:
        cluster.world.kill(victim) if how == "kill" else cluster.world.lose_power(victim)
    cluster.run(8)
    if not is_done(cluster) and victim is not None and victim.life is None:
        victim.start()  # it may hold what must go, or come
        cluster.run(5)
    for _ in range(5):
        if is_done(cluster):
            break
        again = []
        cluster.admin.ask(wish, ANY, again.append)
        cluster.expect(lambda again=again: bool(again), 30, "it is answered")
        cluster.run(3)
    assert is_done(cluster), (
        what,
        step,
        answers,
        getattr(cluster, "left", None),
        [h.life for h in cluster.world.hosts],
    )
    cluster.heal()
    cluster.settle()
    assert is_done(cluster)


def lead_elsewhere(cluster):
    """Let the first replica come back after another took over."""
    first = cluster.world.hosts[cluster.suite.ghosts.assignments[FIRST][0]]
    cluster.world.kill(first)
    cluster.expect(lambda: not is_elected(cluster), 20, "another leads")
    first.start()
    cluster.expect(cluster.is_in_sync, 30, "the first is in sync again")
