"""Log folders that are gone when the broker that stopped last is back: nobody takes an empty replica for a whole one.

All brokers stop in order, as for planned maintenance, so that the last one alone is in sync and knows of a clean end.
"""

import pytest

from tidelog.lab.stage import OnlyWhatWasSynced
from tidelog.model import TopicPartition
from tidelog.sim.clients.admin import ANY
from tidelog.sim.cluster import Cluster
from tidelog.wire.messages.topics.reassignments import ElectLeadersRequest, TopicPartitions

TOPIC = "t"
NAMES = [TopicPartition(TOPIC, number) for number in range(4)]
BOTH, ONE = "/data/one,/data/two", "/data/one"


def stopped_in_order():
    """The cluster, down, and how many records each partition has."""
    cluster = Cluster(7, properties={"log.dirs": BOTH})
    cluster.start()
    cluster.create(TOPIC, len(NAMES))
    producer = cluster.produce(*NAMES)
    cluster.run(2)
    producer.stopped = True
    cluster.expect(lambda: producer.idle, 30, "every produce is answered")
    cluster.run(2)
    ends = {name: cluster.replicas(name)[0].log.end for name in NAMES}
    assert min(ends.values()) > 0
    for number in (1, 2, 0):
        cluster.world.stop(cluster.world.hosts[number])
        cluster.run(4)
    assert [state(cluster, name).isr for name in NAMES] == [(0,)] * 4
    return cluster, ends


def start_all(cluster, folders=BOTH):
    """With these folders on broker 0."""
    disk = cluster.world.hosts[0].disk
    disk.away = {root for root in disk.roots if root not in folders.split(",")}
    for host in cluster.world.hosts:
        if host.life is None:
            host.start()
        cluster.run(3)
    cluster.run(5)


def state(cluster, name):
    return cluster.suite.ghosts.states[name]


def lead_all(cluster, ends):
    cluster.heal()
    cluster.settle()
    assert {name: cluster.replicas(name)[0].log.end for name in NAMES} == ends


def check_led(cluster, ends, count):
    """So many partitions are in a folder that is there, and led with all they had; the others wait for theirs."""
    leaders = [state(cluster, name).leader for name in NAMES]
    assert sorted(leader >= 0 for leader in leaders) == [False] * (4 - count) + [True] * count
    for name in NAMES:
        assert all(replica.log.end == ends[name] for replica in cluster.replicas(name))
        assert state(cluster, name).leader >= 0 or state(cluster, name).isr == (0,)


@pytest.mark.parametrize("loss", ["removed", "one replaced", "all replaced"])
def test_nobody_leads_by_the_proof_of_a_folder_that_is_gone(loss):
    cluster, ends = stopped_in_order()
    disk = cluster.world.hosts[0].disk
    if loss == "all replaced":
        disk.erase()
    elif loss == "one replaced":
        disk.erase("/data/two")
    start_all(cluster, ONE if loss == "removed" else BOTH)
    check_led(cluster, ends, 0 if loss == "all replaced" else 2)


def test_it_leads_once_the_folder_is_back():
    cluster, ends = stopped_in_order()
    start_all(cluster, ONE)
    for _ in range(2):  # the life without the folder ends, cleanly or not, and is no reason to trust it either
        cluster.world.kill(cluster.world.hosts[0])
        start_all(cluster, ONE)
        check_led(cluster, ends, 2)
    cluster.world.stop(cluster.world.hosts[0])
    cluster.run(4)
    start_all(cluster, BOTH)
    lead_all(cluster, ends)


def test_a_folder_more_is_none_less():
    cluster, ends = stopped_in_order()
    cluster.world.hosts[0].disk.roots.append("/data/three")
    start_all(cluster, f"{BOTH},/data/three")
    lead_all(cluster, ends)


def test_somebody_may_still_choose_to_lose():
    cluster, _ = stopped_in_order()
    cluster.world.hosts[0].disk.erase()
    start_all(cluster)
    wish = ElectLeadersRequest(
        election_type=1, topic_partitions=[TopicPartitions(topic=TOPIC, partitions=[n.partition for n in NAMES])]
    )
    answers = []
    cluster.world.after(0, lambda: cluster.admin.ask(wish, ANY, answers.append))
    cluster.expect(lambda: answers, 30, "the wish is answered")
    cluster.heal()
    cluster.settle()


def test_who_misses_another_folder_may_still_have_the_most_complete_log():
    """One of three loses its power and what it had not synced; the others come back without a folder in which the
    replica is not. Their logs are whole, and one of them must lead."""
    cluster = Cluster(7, properties={"log.dirs": BOTH})
    cluster.start()
    cluster.create(TOPIC)
    name = NAMES[0]
    producer = cluster.produce(name)
    cluster.run(2)
    producer.stopped = True
    cluster.expect(lambda: producer.idle, 30, "every produce is answered")
    acked = producer.acked
    one, *others = cluster.world.hosts
    for host in others:
        host.disk.away = {*BOTH.split(",")} - {host.node.replicas.folder_of(name)}
        cluster.world.kill(host)
    one.disk.random = OnlyWhatWasSynced(0)
    cluster.world.lose_power(one)
    cluster.run(12)  # until its session is over, so that nobody takes it for alive
    for host in cluster.world.hosts:
        host.start()
        cluster.run(3)
    cluster.run(10)
    leader = cluster.leader(name)
    assert leader in others
    assert leader.node.replicas.get(*name).log.log_end_offset >= acked > 0
    cluster.heal()
    cluster.settle()


def test_what_a_power_loss_took_is_made_anew_by_brokers_that_missed_another_folder_long_ago():
    """Each broker once got an empty disk for one folder. Later all lose their power before a new topic's replicas are
    synced: nobody has one, and none of them can be in the folders that are gone."""
    cluster = Cluster(7, properties={"log.dirs": BOTH})
    cluster.start()
    cluster.run(2)
    for host in cluster.world.hosts:
        cluster.world.kill(host)
        host.disk.erase("/data/two")
    cluster.run(12)
    for host in cluster.world.hosts:
        host.start()
    cluster.run(5)
    cluster.create(TOPIC)
    cluster.run(1)
    for host in cluster.world.hosts:
        host.disk.random = OnlyWhatWasSynced(0)
        cluster.world.lose_power(host)
    cluster.run(12)
    for host in cluster.world.hosts:
        host.start()
    cluster.run(10)
    assert all(state(cluster, name).leader >= 0 for name in NAMES[:1])
    cluster.heal()
    cluster.settle()
