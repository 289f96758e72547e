"""Truncation by generation, in one story: what Kafka's older ways lose, and the present one keeps.

A, B and C hold a partition. The leader dies, another takes over; the moment the third begins to follow it, that one
dies, too, and the third leads. In the oldest generation it had cut its log to its high watermark by then, which is one
fetch behind what was acknowledged (REPLICATION, story 2 without a restart).
"""

import pytest

from tests.log.support import read_batches
from tidelog.model import TopicPartition
from tidelog.partition.truncation import GENERATIONS
from tidelog.sim.clients.producer import Pace
from tidelog.sim.cluster import Cluster
from tidelog.sim.world import Violation
from tidelog.wire.records import header

NAME = TopicPartition("t", 0)


class KillTheNextLeader:
    """A `world.Observer`: the first broker that follows in the epoch after `epoch` sees its leader die."""

    def __init__(self, world, epoch):
        self.world = world
        self.epoch = epoch
        self.follower = None

    def happened(self, world, host, event):
        if event.kind != "partition.follower" or event.fields["partition"] != str(NAME) or self.follower is not None:
            return
        leader = event.fields["leader"]
        if event.fields["epoch"] > self.epoch and leader >= 0:
            self.follower = host
            world.after(0, lambda: world.kill(world.hosts[leader]))

    def stepped(self, world, host):
        """Nothing to look at between events."""

    def ended(self, world, host, how):
        """Deaths are this one's own doing."""

    def tree_changed(self, world):
        """The metadata tree is of no interest here."""


def replica(host):
    return host.node.replicas.get(*NAME)


def let_the_third_know_less_than_was_acknowledged(cluster, leader):
    """Its next fetch says that it holds a record, but the answer that the record is committed does not arrive."""
    assigned = [broker for broker in cluster.suite.ghosts.assignments[NAME] if broker != leader.broker_id]
    third = cluster.world.hosts[assigned[1]]

    def says_what_it_holds():
        return replica(leader).role.remote[third.broker_id].log_end_offset < replica(third).log.log_end_offset

    cluster.expect(says_what_it_holds, 2, "a fetch is on its way")
    cluster.world.network.block(leader.name, third.name)
    acked = cluster.suite.ghosts.of(NAME).acked
    cluster.expect(lambda: max(acked) >= replica(third).high_watermark, 2, "what it does not know of is acknowledged")


def fail_over_twice(seed, generation):
    """(cluster, what was acknowledged before it as {offset: checksum}, the third)."""
    cluster = Cluster(seed, generation=GENERATIONS[generation])
    cluster.start()
    cluster.create(NAME.topic)
    cluster.produce(NAME, pace=Pace(gap=(1_000, 5_000), burst=(1, 1)))
    cluster.run(0.5)
    leader = cluster.leader(NAME)
    let_the_third_know_less_than_was_acknowledged(cluster, leader)
    killer = KillTheNextLeader(cluster.world, cluster.suite.ghosts.states[NAME].leader_epoch)
    cluster.world.observers.append(killer)
    acked = {base: batch.crc for base, batch in cluster.suite.ghosts.of(NAME).acked.items()}
    cluster.world.kill(leader)
    cluster.expect(lambda: cluster.leader(NAME) is killer.follower is not None, 10, "the third leads")
    return cluster, acked, killer.follower


def lost(acked, host):
    """Acknowledged offsets that this replica does not hold as they were."""
    held = {batch.base_offset: batch.crc for batch in map(header, read_batches(replica(host).log))}
    return [offset for offset, crc in acked.items() if held.get(offset) != crc]


@pytest.mark.parametrize("seed", range(3))
def test_kip_320_loses_nothing_over_two_fast_failovers(seed):
    cluster, acked, third = fail_over_twice(seed, "kip_320")
    assert lost(acked, third) == []
    cluster.heal()
    cluster.settle()
    assert cluster.producers[0].acked > len(acked)


@pytest.mark.parametrize("seed", range(3))
def test_truncating_to_the_high_watermark_is_noticed_at_the_cut(seed):
    with pytest.raises(Violation, match="I20"):
        fail_over_twice(seed, "high_watermark")


@pytest.mark.parametrize("seed", range(3))
def test_truncating_to_the_high_watermark_loses_what_was_acknowledged(seed, monkeypatch):
    """With nobody watching: the third leads without records whose producer was told that they are safe."""
    suite = "tidelog.sim.checks.suite"
    families = ("leadership.check_truncation", "watermarks.check", "committed.check", "elections.check")
    for check in (*families, "answers.check_served", "answers.check_success"):
        monkeypatch.setattr(f"{suite}.{check}", lambda *_, **__: None)
    _, acked, third = fail_over_twice(seed, "high_watermark")
    missing = lost(acked, third)
    assert missing
    assert missing == [offset for offset in acked if offset >= missing[0]], "the end of the log, and nothing else"


@pytest.mark.parametrize("generation", ["kip_101", "kip_279"])
def test_asking_by_epoch_before_fetching_keeps_what_the_high_watermark_would_have_cut(generation):
    """Their own flaws need other stories."""
    cluster, acked, third = fail_over_twice(0, generation)
    assert lost(acked, third) == []
    cluster.heal()
    cluster.settle()
