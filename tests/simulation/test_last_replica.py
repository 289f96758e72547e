"""The last replica in sync loses its power or its disk: with eligible leader replicas (KIP-966) nothing is lost.

`min.insync.replicas` is 2. The others stop in order first, so that one replica is alone in sync.
"""

import pytest

from tidelog.model import TopicPartition
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import SECOND
from tidelog.sim.mutants.catalogue import applied, find
from tidelog.sim.world import Violation

NAME = TopicPartition("t", 0)


def produced(*, elr, seed=7, **properties):
    """A cluster with acknowledged records, and the three brokers with the leader first."""
    cluster = Cluster(seed, elr=elr, properties={name.replace("_", "."): value for name, value in properties.items()})
    cluster.start()
    cluster.create("t")
    producer = cluster.produce(NAME)
    cluster.run(3)
    producer.stopped = True
    cluster.expect(lambda: producer.idle, 30, "everything is answered")
    cluster.run(2)
    assert producer.acked > 10
    state = cluster.suite.ghosts.states[NAME]
    return cluster, [
        cluster.world.hosts[broker] for broker in (state.leader, *(b for b in state.isr if b != state.leader))
    ]


def stop(cluster, *hosts):
    for host in hosts:
        cluster.world.stop(host)
        cluster.expect(lambda host=host: host.life is None, 20, "it has stopped")
        cluster.run(1)


def replace_disk(cluster, host):
    cluster.suite.ghosts.lost_power(host.broker_id)
    host.disk.lose_power()
    host.disk.erase()


def lose_all_but_one_and_then_it(cluster, last, others, how):
    stop(cluster, *others)
    assert cluster.suite.ghosts.states[NAME].isr == (last.broker_id,)
    if how == "stopped, and its disk replaced":
        stop(cluster, last)
        replace_disk(cluster, last)
    else:
        cluster.world.lose_power(last)
        if how == "power and disk":
            last.disk.erase()
    cluster.run(5)


ENDS = ("power", "power and disk", "stopped, and its disk replaced")


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("returns_first", [False, True])
def test_no_acknowledged_record_is_lost(how, returns_first):
    cluster, (last, *others) = produced(elr=True, log_flush_interval_messages=str(2**63 - 1))
    ghosts = cluster.suite.ghosts
    acked = len(ghosts.of(NAME).acked)
    lose_all_but_one_and_then_it(cluster, last, others, how)
    state = ghosts.states[NAME]
    if how == ENDS[2]:
        assert (state.leader, state.isr, state.last_leader) == (-1, (), last.broker_id)
        assert state.elr == tuple(sorted((last.broker_id, others[-1].broker_id)))
    else:  # nobody was left to write that its leader is gone
        assert (state.leader, state.elr) == (last.broker_id, (others[-1].broker_id,))
    assert not ghosts.of(NAME).loss_allowed
    for host in (last, *others) if returns_first else (*others, last):
        host.start()
        cluster.run(3)
    cluster.settle()
    assert ghosts.states[NAME].elr == ()
    assert len(ghosts.of(NAME).acked) == acked
    assert not ghosts.with_losses()


def test_an_eligible_replica_that_loses_only_its_session_leads_without_the_others():
    cluster, (last, first, eligible) = produced(elr=True)
    ghosts = cluster.suite.ghosts
    world = cluster.world
    world.stop(first)
    cluster.expect(lambda: first.life is None, 20, "it has stopped")
    world.lose_session(eligible, notice_delay=3 * SECOND)
    cluster.expect(lambda: ghosts.states[NAME].elr == (eligible.broker_id,), 3, "it left the ISR")
    world.lose_power(last)
    cluster.expect(lambda: ghosts.states[NAME].leader == eligible.broker_id, 15, "it leads again")
    assert not ghosts.of(NAME).loss_allowed
    for host in (first, last):
        host.start()
    cluster.settle()
    assert not ghosts.with_losses()


def test_without_them_a_replaced_disk_loses_everything():
    cluster, (last, *others) = produced(elr=False)
    lose_all_but_one_and_then_it(cluster, last, others, ENDS[2])
    assert cluster.suite.ghosts.of(NAME).loss_allowed
    for host in (*others, last):
        host.start()
        cluster.run(3)
    assert cluster.suite.ghosts.states[NAME].leader == -1, (
        "only an operator can go on, without any record of the last one"
    )


def leader_that_learns_late(cluster):
    """A topic with two replicas whose leader is not the controller and learns of options late, and its follower."""
    cluster.start()
    cluster.create("least", replicas=2, partitions=3, min_insync_replicas="1")
    names = [TopicPartition("least", index) for index in range(3)]
    controller = cluster.controller.broker_id
    name = next(name for name in names if cluster.suite.ghosts.states[name].leader != controller)
    leader, follower = (cluster.world.hosts[broker] for broker in cluster.suite.ghosts.states[name].isr)
    cluster.produce(name)
    cluster.run(1)
    leader.trouble.store_delay = (3 * SECOND, 3 * SECOND)
    return name, follower


def raise_least_and_stop_follower(cluster):
    name, follower = leader_that_learns_late(cluster)
    done = []
    cluster.admin.configure("least", "min.insync.replicas", "2", done.append)
    cluster.expect(lambda: done, 20, "the value is raised")
    cluster.world.stop(follower)
    cluster.expect(lambda: cluster.suite.ghosts.states[name].elr, 20, "the follower is eligible to lead")
    return name


def raise_least_and_run(cluster):
    raise_least_and_stop_follower(cluster)
    cluster.run(3)


def test_a_leader_that_does_not_know_the_new_value_commits_nothing_that_an_eligible_replica_lacks():
    cluster = Cluster(3, elr=True)
    name = raise_least_and_stop_follower(cluster)
    reached = cluster.suite.ghosts.of(name).true_high_watermark
    cluster.run(1)
    assert cluster.suite.ghosts.of(name).true_high_watermark == reached


def test_a_leader_that_ignores_eligible_replicas_is_found_out():
    cluster = Cluster(3, elr=True)
    with applied(find("elr-ignored-by-leader")), pytest.raises(Violation, match=r"I7|I45"):
        raise_least_and_run(cluster)
