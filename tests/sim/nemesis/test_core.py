"""A healed core: what is left out, and what the rest must do without it."""

import pytest

from tidelog.model import TopicPartition
from tidelog.sim.cluster import Cluster
from tidelog.sim.nemesis import Nemesis
from tidelog.sim.world import Violation

NAME = TopicPartition("t", 0)


def at_work(brokers=3, **properties):
    cluster = Cluster(
        3, brokers=brokers, properties={name.replace("_", "."): value for name, value in properties.items()}
    )
    nemesis = Nemesis(cluster, ("kill",))
    nemesis.leaves_some_out = True
    cluster.start()
    cluster.create("t")
    cluster.produce(NAME)
    cluster.consume(NAME)
    cluster.run(1)
    return cluster, nemesis


@pytest.mark.parametrize(("brokers", "left_out"), [(3, 1), (5, 1)])
def test_the_core_does_without_a_minority_which_then_comes_back(brokers, left_out):
    cluster, nemesis = at_work(brokers)
    nemesis.end()
    assert nemesis.over
    assert left_out <= cluster.world.counts["left out"] <= (brokers - 1) // 2
    assert all(host.up for host in cluster.world.hosts)
    cluster.settle()


def test_nobody_is_left_out_of_whom_a_partition_needs_every_replica():
    cluster, nemesis = at_work(min_insync_replicas="3")
    nemesis.end()
    assert "left out" not in cluster.world.counts
    cluster.settle()


def test_a_core_that_cannot_go_on_is_a_violation():
    cluster, nemesis = at_work()
    core = nemesis.core
    core.absent = {0, 1}
    for host in core.hosts():
        cluster.world.kill(host)
    with pytest.raises(Violation, match=r"liveness: .*what is produced is acknowledged"):
        core.check_core()
    assert not any(host.up for host in core.hosts()), "who is left out is not started again meanwhile"
