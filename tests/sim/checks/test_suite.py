"""What the suite sees in a cluster: replicas that go, or are of another topic, and guests that pretend to lead."""

from random import Random

import pytest

from tidelog.model import TopicPartition
from tidelog.sim.checks.wire.probe import RogueController
from tidelog.sim.cluster import Cluster
from tidelog.sim.mutants.catalogue import applied, find
from tidelog.sim.world import Violation

NAME = TopicPartition("t", 0)
OTHER = b"E" * 16


@pytest.fixture
def cluster():
    started = Cluster(1)
    started.start()
    started.create("t")
    producer = started.produce(NAME)
    started.run(1)
    producer.stopped = True
    assert started.suite.ghosts.of(NAME).true_high_watermark > 0
    return started


def follower(cluster):
    leader = cluster.leader(NAME)
    return next(host for host in cluster.world.hosts if host is not leader)


def test_a_replica_that_another_topic_of_that_name_takes_the_place_of(cluster):
    host = follower(cluster)
    host.node.replicas.create(NAME, OTHER, host.now())
    with pytest.raises(
        Violation, match=rf"I32: broker {host.broker_id} deleted t-0, which the controller still assigns"
    ):
        cluster.run(5)


def test_a_member_of_the_isr_whose_replica_was_lost_unseen(cluster):
    host = follower(cluster)
    host.node.replicas._partitions.pop(NAME)
    cluster.suite._held.pop(host.broker_id)
    with pytest.raises(Violation, match=rf"I47: broker {host.broker_id} is in sync and has no replica of t-0"):
        cluster.run(5)


def forge(cluster):
    forger = RogueController(cluster.world, cluster.suite.ghosts, Random(1))
    cluster.world.after(0, forger.start)
    cluster.run(40)
    forger.stopped = True
    return forger


def test_a_controller_that_nobody_elected_is_refused(cluster):
    forger = forge(cluster)
    assert forger.requests_sent > 10
    cluster.settle()


def test_a_controller_that_nobody_elected_is_obeyed(cluster):
    with applied(find("made-up-controller")), pytest.raises(Violation, match=r"I48: broker-\d accepts \w+ -1 of contr"):
        forge(cluster)
