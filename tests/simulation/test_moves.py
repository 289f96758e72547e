"""Partitions that move between brokers in the simulator: under load, through crashes, and not faster than throttled.

Every invariant is looked at after each step, I14 and I32 among them: the ISR is never empty, what a reassignment adds and
removes is among the replicas, and a replica is deleted only when the controller has committed that it goes.
"""

import pytest

from tidelog.client.admin import ANY, alter_configs_request
from tidelog.config.alter import BROKER, TOPIC
from tidelog.effects import CONTROLLER
from tidelog.model import TopicPartition
from tidelog.sim.clients.producer import Pace
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.plan import Plan
from tidelog.sim.run import run
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def running(seed, *, brokers=5, replicas=3, **properties):
    """A cluster in which clients produce and consume."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    cluster = Cluster(seed, brokers=brokers, properties=given)
    cluster.start()
    cluster.create("t", 2, replicas)
    for name in (T0, T1):
        cluster.produce(name)
        cluster.consume(name)
    cluster.run(1)
    return cluster


def ask(cluster, request, target=CONTROLLER):
    answers = []
    cluster.admin.ask(request, target, answers.append)
    cluster.expect(lambda: bool(answers), 20, "the request is answered")
    return answers[0]


def reassign(cluster, name, replicas):
    wish = ReassignablePartition(partition_index=name.partition, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name.topic, partitions=[wish])])
    answer = ask(cluster, request)
    return answer and (answer.error_code or answer.responses[0].partitions[0].error_code)


def configure(cluster, kind, name, options, target=ANY):
    answer = ask(cluster, alter_configs_request(kind, name, options.items()), target)
    assert answer.responses[0].error_code == 0, answer


def elsewhere(cluster, name):
    """As many other brokers as there can be, then some that stay."""
    now = cluster.suite.ghosts.assignments[name]
    others = [host.broker_id for host in cluster.world.hosts if host.broker_id not in now]
    return [*others, *now][: len(now)]


def arrived(cluster, name, target):
    ghosts = cluster.suite.ghosts
    return ghosts.assignments[name] == tuple(target) and ghosts.reassigning[name] == ((), ())


@pytest.mark.parametrize("seed", range(3))
def test_partitions_move_under_load(seed):
    cluster = running(seed)
    for name in (T0, T1):
        target = elsewhere(cluster, name)
        assert reassign(cluster, name, target) == 0
        cluster.expect(lambda name=name, target=target: arrived(cluster, name, target), 60, "the move ends")
    cluster.heal()
    cluster.settle()
    for producer in cluster.producers:
        assert producer.acked > 0
        assert not cluster.suite.ghosts.of(producer.name).loss_allowed


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("whom", ["controller", "leader", "added", "removed"])
def test_a_move_survives_the_death_of_whoever_has_a_part_in_it(seed, whom):
    cluster = running(seed)
    before = cluster.suite.ghosts.assignments[T0]
    target = elsewhere(cluster, T0)
    assert reassign(cluster, T0, target) == 0
    cluster.run(cluster.world.random.uniform(0, 0.3))
    victim = {
        "controller": cluster.controller,
        "leader": cluster.leader(T0),
        "added": cluster.world.hosts[target[0]],
        "removed": cluster.world.hosts[before[-1]],
    }[whom]
    if victim is not None and victim.life is not None:
        cluster.world.kill(victim) if seed % 2 else cluster.world.lose_power(victim)
    cluster.run(2)
    if victim is not None and victim.life is None:
        victim.start()
    cluster.expect(lambda: arrived(cluster, T0, target), 60, "the move ends")
    cluster.heal()
    cluster.settle()
    held = {host.broker_id for host in cluster.world.hosts if host.node.replicas.get(*T0) is not None}
    assert held == set(target)


@pytest.mark.parametrize("seed", range(3))
def test_a_move_is_cancelled_at_some_point(seed):
    cluster = running(seed)
    before = cluster.suite.ghosts.assignments[T0]
    assert reassign(cluster, T0, elsewhere(cluster, T0)) == 0
    cluster.run(cluster.world.random.uniform(0, 0.2))
    reassign(cluster, T0, None)
    cluster.heal()
    cluster.settle()
    target = cluster.suite.ghosts.assignments[T0]
    held = {host.broker_id for host in cluster.world.hosts if host.node.replicas.get(*T0) is not None}
    assert held == set(target)
    assert target == before or set(target) == set(elsewhere(cluster, T0)) or len(target) == 3


@pytest.mark.parametrize("side", ["leader", "follower", "both"])
def test_what_catches_up_does_so_at_the_rate_and_what_is_in_sync_is_not_held_back(side):
    rate = 20_000
    cluster = Cluster(7, brokers=4, properties={"min.insync.replicas": "1", "replica.fetch.max.bytes": "4000"})
    cluster.start()
    cluster.create("t", 1, 2)
    producer = cluster.produce(T0, pace=Pace(gap=(MILLI, 5 * MILLI), burst=(5, 12), limit=100))
    cluster.expect(lambda: size(cluster, T0) > 250_000, 200, "there is something to copy")
    old = cluster.suite.ghosts.assignments[T0]
    (new,) = [elsewhere(cluster, T0)[0]]
    lists = {f"{each}.replication.throttled.replicas": "*" for each in ("leader", "follower") if side in (each, "both")}
    configure(cluster, TOPIC, "t", lists)
    rates = {f"{each}.replication.throttled.rate": str(rate) for each in ("leader", "follower")}
    for host in cluster.world.hosts:
        configure(cluster, BROKER, str(host.broker_id), rates, host.broker_id)
    producer.stopped = True
    cluster.run(10)
    acked, began = producer.acked, cluster.world.micros
    assert reassign(cluster, T0, [*old, new]) == 0
    copied = size(cluster, T0)
    cluster.expect(lambda: arrived(cluster, T0, (*old, new)), 100, "the move ends")
    seconds = (cluster.world.micros - began) / SECOND
    assert abs(copied / seconds - rate) <= 0.1 * rate, (copied, seconds)
    assert producer.acked >= acked
    cluster.settle()


def size(cluster, name):
    leader = cluster.leader(name)
    partition = leader.node.replicas.get(*name) if leader is not None and leader.life else None
    return 0 if partition is None else partition.log.size


def test_a_throttled_partition_does_not_hold_back_the_others_of_its_fetcher():
    cluster = Cluster(3, brokers=4, properties={"min.insync.replicas": "2", "replica.lag.time.max.ms": "3000"})
    cluster.start()
    cluster.create("t", 1, 2)
    slow = cluster.produce(T0, pace=Pace(gap=(MILLI, 5 * MILLI), burst=(5, 12), limit=100))
    cluster.expect(lambda: size(cluster, T0) > 100_000, 200, "there is something to copy")
    slow.stopped = True
    old = cluster.suite.ghosts.assignments[T0]
    (new,) = [elsewhere(cluster, T0)[0]]
    cluster.create("u", 1, 4)
    configure(cluster, TOPIC, "t", {"leader.replication.throttled.replicas": "*"})
    for host in cluster.world.hosts:
        rates = {f"{each}.replication.throttled.rate": "1000" for each in ("leader", "follower")}
        configure(cluster, BROKER, str(host.broker_id), rates, host.broker_id)
    assert reassign(cluster, T0, [*old, new]) == 0
    quick = cluster.produce(TopicPartition("u", 0))
    cluster.run(10)
    assert not arrived(cluster, T0, (*old, new))
    assert quick.acked > 20
    assert len(cluster.suite.ghosts.states[TopicPartition("u", 0)].isr) == 4


FOUND = {
    5: "a partition that waited for its flush as well as for the throttle woke its broker without end",
    7: "a leader that had not heard of a third replica was held to it",
    1083: "what was compacted after records were lost by leave was held against a log that recovered",
    1307: "a replica that was being added again was deleted by what was told of it before: rightly",
    11: "a leader that stayed through a move was taken for elected out of turn",
}


@pytest.mark.parametrize("seed", [*FOUND, *range(100, 112)])
def test_drawn_seeds_pass_while_partitions_move(seed):
    outcome = run(Plan(seed, moves=True))
    assert outcome.ok, outcome.violation
