"""Three brokers, clients and one kind of trouble at a time.

Every invariant of `sim/checks` is looked at after each step. At the end, with the trouble over: every produce is
answered, every acknowledged record is on all replicas, ISR = AR, and every reader is at the end.
"""

import pytest

from tidelog.effects import CONTROLLER
from tidelog.model import TopicPartition
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND, Faults
from tidelog.sim.network import Weather
from tidelog.sim.world import ROOT
from tidelog.wire.messages.topics.topic_changes import DeleteTopicsRequest, DeleteTopicState

TOPIC = "t"
FIRST = TopicPartition(TOPIC, 0)


def running(seed, *, partitions=2, faults=None, **properties):
    """A cluster in which clients produce and consume for a second."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    cluster = Cluster(seed, faults=faults, properties=given)
    cluster.start()
    cluster.create(TOPIC, partitions)
    for number in range(partitions):
        cluster.produce(TopicPartition(TOPIC, number))
        cluster.consume(TopicPartition(TOPIC, number))
    cluster.run(1)
    return cluster


def settled(cluster):
    cluster.heal()
    cluster.settle()
    for producer in cluster.producers:
        ghost = cluster.suite.ghosts.of(producer.name)
        assert producer.acked > 0
        assert not ghost.loss_allowed
        for replica in cluster.replicas(producer.name):
            held = {batch.base: batch for batch in replica.log.batches}
            assert all(held[acked.base].crc == acked.crc for acked in ghost.acked.values())
    return cluster


@pytest.mark.parametrize("seed", range(2))
def test_a_killed_leader_loses_nothing_and_comes_back(seed):
    cluster = running(seed)
    leader = cluster.leader(FIRST)
    before = cluster.producers[0].acked
    cluster.world.kill(leader)
    cluster.run(3)
    assert cluster.leader(FIRST) is not leader
    assert cluster.producers[0].acked > before, "the others go on without it"
    leader.start()
    cluster.run(3)
    settled(cluster)
    assert cluster.world.counts["partition.elected"] >= 1


@pytest.mark.parametrize("seed", range(2))
def test_a_leader_that_loses_its_power_comes_back_with_less_and_is_filled_up(seed):
    cluster = running(seed)
    leader = cluster.leader(FIRST)
    cluster.world.lose_power(leader)
    cluster.run(15)
    leader.start()
    cluster.run(2)
    settled(cluster)


@pytest.mark.parametrize("seed", range(2))
def test_with_a_flush_for_every_message_even_all_power_at_once_loses_nothing_acknowledged(seed):
    cluster = running(seed, log_flush_interval_messages="1")
    acked = dict(cluster.suite.ghosts.of(FIRST).acked)
    for host in cluster.world.hosts:
        cluster.world.lose_power(host)
    cluster.run(12)
    for host in cluster.world.hosts:
        host.start()
    cluster.heal()
    cluster.settle()
    for replica in cluster.replicas(FIRST):
        held = {batch.base: batch.crc for batch in replica.log.batches}
        assert all(held.get(base) == entry.crc for base, entry in acked.items())


@pytest.mark.parametrize("seed", range(2))
def test_a_paused_leader_wakes_as_a_zombie_and_commits_nothing(seed):
    cluster = running(seed)
    leader = cluster.leader(FIRST)
    cluster.world.pause(leader, 20 * SECOND)
    cluster.run(12)
    assert cluster.leader(FIRST) is not leader
    cluster.run(15)
    settled(cluster)


@pytest.mark.parametrize("seed", range(2))
def test_a_lagging_follower_leaves_the_isr_and_comes_back(seed):
    cluster = running(seed, replica_lag_time_max_ms="1000")
    leader, controller = cluster.leader(FIRST), cluster.controller
    follower = next(host for host in cluster.world.hosts if host not in (leader, controller))
    cluster.world.network.block(leader.name, follower.name)
    cluster.run(6)
    assert follower.broker_id not in cluster.suite.ghosts.states[FIRST].isr
    cluster.world.network.heal()
    settled(cluster)
    assert cluster.is_in_sync()


@pytest.mark.parametrize("seed", range(2))
def test_an_isolated_leader_is_told_apart_from_the_living(seed):
    cluster = running(seed)
    leader = cluster.leader(FIRST)
    names = [host.name for host in cluster.world.hosts]
    cluster.world.network.isolate(leader.name, names)
    cluster.world.lose_session(leader)
    cluster.run(10)
    assert cluster.leader(FIRST) is not leader
    cluster.world.network.heal()
    cluster.run(5)
    settled(cluster)


@pytest.mark.parametrize("seed", range(2))
def test_below_min_in_sync_nothing_is_acknowledged_and_nothing_is_lost(seed):
    cluster = running(seed)
    leader = cluster.leader(FIRST)
    for host in cluster.world.hosts:
        if host is not leader:
            cluster.world.kill(host)
    cluster.run(8)
    stuck = cluster.producers[0].acked
    cluster.run(5)
    assert cluster.producers[0].acked == stuck
    assert cluster.world.counts["produce: NOT_ENOUGH_REPLICAS"] > 0
    settled(cluster)
    assert cluster.producers[0].acked > stuck


@pytest.mark.parametrize("seed", range(2))
def test_clean_restarts_one_after_another_never_leave_the_topic_without_a_leader_for_long(seed):
    cluster = running(seed)
    for host in cluster.world.hosts:
        cluster.world.stop(host)
        cluster.expect(lambda host=host: not host.up, 10, "a wished stop ends")
        assert host.stopped_because == ""
        host.start()
        cluster.expect(cluster.is_in_sync, 20, "all replicas are in sync again")
    settled(cluster)


@pytest.mark.parametrize("seed", range(2))
def test_slow_and_broken_networks_and_a_forgetful_store_change_nothing(seed):
    weather = Weather(tail_chance=0.1, tail=(5 * MILLI, 400 * MILLI), split_chance=0.5, cut_chance=0.01)
    cluster = running(seed, faults=Faults(weather=weather, store_delay=(100, 300 * MILLI), store_lost=0.2))
    cluster.run(10)
    settled(cluster)


@pytest.mark.parametrize("seed", range(2))
def test_a_deleted_replica_does_not_come_back_after_a_power_loss(seed):
    """Seed 2175: the topic of the same name that came after had no replica there, and nobody missed the old one."""
    cluster = running(seed)
    deleted = []
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=3_000)
    for client in (*cluster.producers, *cluster.readers):
        client.process.kill()
    cluster.admin.ask(request, CONTROLLER, deleted.append)
    cluster.expect(lambda: bool(deleted), 10, "the topic is deleted")
    for host in cluster.world.hosts:
        cluster.world.lose_power(host)
        assert not [name for name in host.disk.list(ROOT) if name.startswith(f"{TOPIC}-") and "delete" not in name]
