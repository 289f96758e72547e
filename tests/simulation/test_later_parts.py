"""Parts of the workload that came later, each by itself: replicas that move between the folders of a broker, readers that
are sent to followers, and topics that have one, two or five replicas."""

from random import Random

import pytest

from tidelog.model import TopicPartition
from tidelog.sim.cluster import Cluster
from tidelog.sim.parts import topology
from tidelog.sim.parts.moves import LogDirectoryMoves

NAMES = [TopicPartition("t", number) for number in range(3)]


def at_work(cluster, **configs):
    cluster.start()
    cluster.create("t", len(NAMES), **configs)
    cluster.produce(*NAMES)
    cluster.consume(*NAMES)


def settles(cluster):
    cluster.heal()
    cluster.settle()
    assert all(producer.acked > 0 for producer in cluster.producers)
    assert not cluster.suite.ghosts.with_losses()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rate", ["5000", "9223372036854775807"])
def test_replicas_move_between_folders_under_load_and_through_kills(seed, rate):
    properties = {"log.dirs": "/data/one,/data/two", "replica.alter.log.dirs.io.max.bytes.per.second": rate}
    cluster = Cluster(seed, properties=properties)
    at_work(cluster)
    relocations = LogDirectoryMoves(cluster, Random(seed))
    relocations.start()
    for host in cluster.world.hosts:
        cluster.run(4)
        cluster.world.kill(host)
        cluster.run(1)
        host.start()
    cluster.run(5)
    relocations.stop()
    settles(cluster)
    assert cluster.world.counts["replica.moved"] > 0


def test_a_reader_in_a_rack_is_sent_to_a_follower_and_reads_all():
    cluster = Cluster(5, properties=topology.draw_rack_properties(Random(1)))
    topology.assign_racks(cluster)
    at_work(cluster)
    topology.consume_from_rack(cluster, NAMES, Random(1))
    near = cluster.readers[-1]
    cluster.run(5)
    places = near.process.machine.positions.by_partition
    assert any(place.read_replica >= 0 for place in places.values())
    cluster.world.kill(cluster.world.hosts[1])
    cluster.run(3)
    settles(cluster)


@pytest.mark.parametrize("factor", [1, 2, 5])
def test_other_numbers_of_replicas_survive_the_death_of_everybody(factor):
    properties = topology.factor_properties(factor)
    cluster = Cluster(factor, brokers=5, properties=properties, factor=factor)
    at_work(cluster)
    cluster.run(3)
    assert {len(cluster.suite.ghosts.assignments[name]) for name in NAMES} == {factor}
    for host in cluster.world.hosts:
        cluster.world.kill(host)
        cluster.run(1)
    settles(cluster)
