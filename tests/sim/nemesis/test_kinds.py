"""Every kind of fault has its effect on a real cluster, and the same one each time."""

from random import Random

import pytest

from tidelog.model import TopicPartition
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import KILL, MILLI, POWER, SECOND
from tidelog.sim.nemesis import KINDS, Nemesis, triggers
from tidelog.sim.nemesis.schedule import GENERAL
from tidelog.sim.nemesis.strike import Strike

NAME = TopicPartition("t", 0)


class Scene:
    """A cluster at work, and a nemesis that strikes only where the test says so."""

    def __init__(self, seed=1, **properties):
        given = {name.replace("_", "."): value for name, value in properties.items()}
        self.cluster = Cluster(seed, properties=given)
        self.world = self.cluster.world
        self.nemesis = Nemesis(self.cluster, ("kill",))
        self.nemesis.atlas.reckless = False
        self.cluster.start()
        self.cluster.create("t")
        self.cluster.produce(NAME)
        self.cluster.run(1)
        self.number = 0

    @property
    def hosts(self):
        return self.world.hosts

    def strike(self, kind, seed=1):
        self.number += 1
        self.nemesis.strike(Strike(self.nemesis, self.number, kind, Random(seed)))

    def passes_until(self, condition, seconds=20):
        self.cluster.expect(condition, seconds, "the effect of the fault is there")

    def ends(self, kind):
        return self.world.counts.get(kind, 0)

    def settles(self):
        self.nemesis.over = True
        self.cluster.heal()
        self.cluster.settle()


@pytest.fixture
def scene():
    return Scene()


def acked(scene):
    return sum(producer.acked for producer in scene.cluster.producers)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_is_the_same_each_time_and_the_cluster_gets_over_it(kind):
    digests = set()
    for _ in range(2):
        scene = Scene(log_segment_bytes="16384")
        for seed in range(3):
            scene.strike(kind, seed)
            scene.cluster.run(1)
        assert scene.ends(f"fault: {kind}") == 3
        scene.settles()
        assert acked(scene) > 0
        digests.add(scene.world.trace.digest)
    assert len(digests) == 1


def test_every_process_is_killed_and_comes_back(scene):
    lives = [host.lives for host in scene.hosts]
    scene.strike("kill_all")
    scene.passes_until(lambda: scene.ends("kill") == len(scene.hosts), 1)
    scene.passes_until(lambda: all(host.up for host in scene.hosts))
    assert [host.lives for host in scene.hosts] == [life + 1 for life in lives]


def test_a_second_power_loss_is_not_drawn_where_it_would_make_loss_legitimate(scene):
    scene.strike("power_loss_of_two")
    assert scene.ends("power loss") == 1
    assert not scene.cluster.suite.ghosts.with_losses()


def test_a_reckless_nemesis_takes_the_power_of_two(scene):
    scene.nemesis.atlas.reckless = True
    scene.strike("power_loss_of_two")
    assert scene.ends("power loss") == 2
    assert scene.cluster.suite.ghosts.of(NAME).loss_allowed


def test_a_broker_that_is_doomed_counts_as_one_that_has_lost(scene):
    atlas, (one, other, _) = scene.nemesis.atlas, scene.hosts
    assert atlas.power_or_kill(one) == POWER
    assert atlas.power_or_kill(other) == KILL
    atlas.ended(one)
    assert atlas.power_or_kill(other) == POWER


def test_a_process_is_killed_within_a_disk_operation_and_keeps_its_page_cache(scene):
    scene.strike("kill_in_disk")
    host = next(host for host in scene.hosts if host.disk.verdict is not None)
    scene.passes_until(lambda: not host.up)
    assert (scene.ends("kill"), scene.ends("power loss")) == (1, 0)
    assert not host.disk.pending or host.disk.names != host.disk.durable


def test_a_recovery_is_cut_short_and_the_next_one_comes_through(scene):
    scene.strike("in_recovery", 3)
    host = next(host for host in scene.hosts if not host.up)
    scene.passes_until(lambda: host.lives > 1)
    scene.passes_until(lambda: scene.ends("kill") + scene.ends("power loss") == 2)
    scene.settles()
    assert host.lives == 3


def test_a_new_disk_is_empty(scene):
    scene.strike("new_disk")
    host = next(host for host in scene.hosts if not host.up)
    assert host.disk.names.keys() == {"/data"}
    scene.settles()
    assert host.disk.names.keys() > {"/data"}


def test_answers_to_clients_are_lost_while_they_are_cut_off(scene):
    seeds = iter(range(20))
    while not scene.world.network.blocked:
        scene.strike("cut_clients", next(seeds))
    assert all({source, target} - {host.name for host in scene.hosts} for source, target in scene.world.network.blocked)


def test_a_slow_link_is_narrow_for_a_while(scene):
    scene.strike("slow_link")
    ways = dict(scene.world.network.slow)
    assert len(ways) in (2, 4)
    assert {(target, source) for source, target in ways} == ways.keys()
    scene.passes_until(lambda: not scene.world.network.slow)


def test_a_storm_passes(scene):
    weather = scene.world.network.weather
    usual = (weather.tail_chance, weather.split_chance, weather.cut_chance)
    scene.strike("storm")
    scene.strike("storm")
    assert weather.tail_chance >= 0.1
    scene.passes_until(lambda: (weather.tail_chance, weather.split_chance, weather.cut_chance) == usual, 4)


def test_a_failed_fsync_counts_as_a_loss_of_power():
    scene = Scene(log_flush_interval_messages="1")
    lossy = scene.cluster.suite.ghosts.of(NAME).lossy
    for seed in range(12):
        scene.strike("sync_error", seed)
        scene.cluster.run(0.2)
        if lossy:
            break
    assert len(lossy) == 1
    (broker,) = lossy
    scene.passes_until(lambda: scene.hosts[broker].lives > 1)
    scene.settles()
    assert not lossy, "it is in the ISR again, and has it all"


def test_a_disk_without_room_refuses_and_the_broker_comes_back_when_it_has(scene):
    scene.strike("disk_full")
    host = next(host for host in scene.hosts if host.disk.capacity is not None)
    scene.passes_until(lambda: host.disk.capacity is None)
    scene.settles()


def test_a_slow_disk_syncs_later_for_a_while(scene):
    scene.strike("slow_disk")
    (host,) = (host for host in scene.hosts if host.trouble.sync_factor > 1)
    scene.passes_until(lambda: host.trouble.sync_factor == 1)


def test_a_rotten_bit_ends_the_log_at_the_next_start_and_is_served_to_nobody(scene):
    scene.strike("rot")
    (host,) = (host for host in scene.hosts if not host.up)
    assert host.disk.rotten
    ghost = scene.cluster.suite.ghosts.of(NAME)
    assert ghost.lossy == {host.broker_id}
    assert not ghost.loss_allowed
    scene.settles()


def test_a_wall_clock_jumps_and_drifts_and_the_monotonic_one_does_not(scene):
    host = scene.hosts[0]
    before = host.now()
    host.drifts(100)
    assert host.now() == before
    scene.cluster.run(2)
    assert (host.now().mono - before.mono, host.now().wall - before.wall) == (2_000, 2_200)
    scene.strike("clock_far")
    assert any(abs(host.wall_offset) > 1_000_000 for host in scene.hosts)


def test_a_broker_waits_longer_for_a_slow_store_and_knows_less_of_a_bad_one(scene):
    scene.strike("slow_store")
    scene.strike("unknown_outcomes", 2)
    assert any(host.trouble.store_delay for host in scene.hosts)
    assert any(host.trouble.store_lost for host in scene.hosts)
    scene.passes_until(lambda: not any(host.trouble.store_delay or host.trouble.store_lost for host in scene.hosts))


def test_another_controller_is_elected_where_the_node_of_the_old_one_was_deleted(scene):
    epoch = scene.cluster.suite.ghosts.controller_epoch
    scene.strike("controller_deleted")
    scene.passes_until(lambda: scene.cluster.suite.ghosts.controller_epoch > epoch)
    assert all(host.up for host in scene.hosts)


@pytest.fixture
def hits(monkeypatch):
    """Who was hit when the moment came, and what the cluster's replicas of the partition were then."""
    found = []

    def hit(strike, host):
        found.append((host, [replica.state for replica in strike.nemesis.cluster.replicas(NAME)]))

    monkeypatch.setattr("tidelog.sim.nemesis.strike.HITS", dict.fromkeys(triggers.HITS, hit))
    return found


def test_a_leader_is_hit_while_it_holds_records_that_are_not_committed(scene, hits):
    scene.strike("after_append")
    scene.passes_until(lambda: bool(hits))
    (_, states) = hits[0]
    assert any(state.leading and state.high_watermark < state.end for state in states)
    assert not scene.nemesis.armed


def test_the_controller_is_hit_between_a_commit_and_its_notification(scene, hits):
    scene.strike("after_commit")
    for host in scene.hosts:
        if host is not scene.cluster.controller:
            scene.world.lose_session(host)
    scene.passes_until(lambda: bool(hits))
    assert hits[0][0] is scene.cluster.controller


def test_a_moment_that_does_not_come_is_not_awaited_for_ever(scene, hits):
    scene.strike("after_commit")
    assert scene.nemesis.armed
    scene.cluster.run(11)
    assert not scene.nemesis.armed


def test_a_process_ends_within_the_disk_operation_that_makes_a_segment_or_a_checkpoint():
    for kind in ("at_roll", "at_checkpoint"):
        scene = Scene(log_segment_bytes="16384", replica_high_watermark_checkpoint_interval_ms="500")
        scene.strike(kind, 2)
        before = scene.ends("kill") + scene.ends("power loss")
        scene.passes_until(lambda: scene.ends("kill") + scene.ends("power loss") > before, 10)  # noqa: B023
        scene.settles()


def test_a_fault_that_is_left_out_changes_no_other():
    def struck(only):
        cluster = Cluster(5)
        nemesis = Nemesis(cluster, ("slow_disk", "clock_jump", "clock_far"), only)
        nemesis.pace = 100 * MILLI
        cluster.world.after(0, nemesis.inject_next_fault)
        cluster.world.run(5 * SECOND)
        return nemesis.struck

    everything = struck(None)
    assert len(everything) > 10
    assert struck({2, 4}) == {number: everything[number] for number in (2, 4)}


def test_kinds_have_weights_and_most_seeds_have_only_some():
    drawn = [Nemesis(Cluster(seed)) for seed in range(40)]
    assert {len(nemesis.kinds) for nemesis in drawn} == {1, 2, 4, 8, len(GENERAL)}
    assert 0 < sum(nemesis.atlas.reckless for nemesis in drawn) < 10
    assert len({nemesis.weights for nemesis in drawn}) > 10


def test_a_leadership_goes_to_and_fro_between_two_who_cannot_hear_each_other(scene):
    states = scene.cluster.suite.ghosts.states
    first = states[NAME].leader
    scene.strike("to_and_fro")  # nobody is preferred and follows: the leader is killed, and will
    scene.passes_until(lambda: states[NAME].leader != first and scene.cluster.is_in_sync())
    second = states[NAME].leader
    scene.strike("to_and_fro")
    assert (f"broker-{first}", f"broker-{second}") in scene.world.network.blocked
    scene.passes_until(lambda: states[NAME].leader == first)
    scene.passes_until(lambda: states[NAME].leader not in (first, -1))
    assert scene.ends("kill") == 2
    scene.settles()
