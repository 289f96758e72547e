"""The world itself, with a tiny broker: lives, pauses, the network's cuts, the store's answers, and the digest."""

import pytest

from tests.hash_seeds import outputs_under_two_hash_seeds
from tests.sim.ping import PingNode
from tidelog.sim.faults import SECOND, Fault, Faults
from tidelog.sim.network import Weather
from tidelog.sim.world import Violation, World


def world_of(seed=1, **faults):
    return World(seed, PingNode, faults=Faults(**faults))


def started(seed=1, **faults):
    world = world_of(seed, **faults)
    world.start()
    world.run(SECOND)
    return world


def digest(seed):
    world = started(seed, weather=Weather(tail_chance=0.1, cut_chance=0.05, split_chance=0.5), store_lost=0.3)
    world.kill(world.hosts[0])
    world.pause(world.hosts[1], 12 * SECOND)
    world.run(SECOND)
    world.hosts[0].start()
    world.lose_power(world.hosts[2])
    world.run(15 * SECOND)
    return world.trace.digest


def test_brokers_ping_through_pieces_of_frames():
    world = started(weather=Weather(split_chance=1.0))
    assert all(host.node.pings > 10 for host in world.hosts)
    assert all(host.node.synced_tokens for host in world.hosts)
    assert sorted(world.tree.children("/brokers/ids")) == ["0", "1", "2"]
    assert all("/brokers/ids" in host.node.events for host in world.hosts)


def test_a_killed_broker_loses_its_session_at_once_and_its_peers_hear_of_it():
    world = started()
    host = world.hosts[1]
    size = host.node.end
    world.kill(host)
    world.run(SECOND // 100)
    assert world.tree.children("/brokers/ids") == ("0", "2")
    assert world.hosts[0].node.out != 1
    host.start()
    assert host.node.end == size
    world.run(SECOND)
    assert world.tree.children("/brokers/ids") == ("0", "1", "2")
    assert world.hosts[0].node.out == 1


def test_a_broker_without_power_is_silent_until_it_is_back():
    world = started()
    world.lose_power(world.hosts[1])
    world.run(SECOND)
    assert world.hosts[0].node.out == 1
    assert "1" in world.tree.children("/brokers/ids")
    world.run(10 * SECOND)
    assert "1" not in world.tree.children("/brokers/ids")
    world.hosts[1].start()
    world.run(SECOND)
    assert world.hosts[0].node.out == 1
    assert world.hosts[1].node.pings > 5


def test_a_long_pause_costs_the_session_and_a_short_one_does_not():
    world = started()
    world.pause(world.hosts[0], 2 * SECOND)
    world.pause(world.hosts[1], 15 * SECOND)
    world.run(10 * SECOND)
    assert world.tree.children("/brokers/ids") == ("0", "2")
    world.run(15 * SECOND)
    assert world.hosts[0].node.lost == []
    assert len(world.hosts[1].node.lost) == 1
    assert len(world.hosts[1].node.sessions) == 2
    assert world.tree.children("/brokers/ids") == ("0", "1", "2")


def test_who_is_woken_early_keeps_its_session():
    """Seed 5001087: the cluster was healed, and a live broker lost the session all the same."""
    world = started()
    world.pause(world.hosts[1], 15 * SECOND)
    world.run(SECOND)
    world.resume(world.hosts[1])
    world.run(20 * SECOND)
    assert world.hosts[1].node.lost == []
    assert world.tree.children("/brokers/ids") == ("0", "1", "2")


def test_a_partition_holds_what_is_sent_and_healing_delivers_it_or_resets():
    world = started(weather=Weather(reset_on_heal=0.0))
    receiver = world.hosts[1].node
    world.network.block("broker-0", "broker-1")
    world.run(SECOND)
    before = receiver.pings
    world.run(SECOND)
    assert receiver.pings == before
    world.network.heal()
    world.run(SECOND // 10)
    assert receiver.pings > before + 15


def test_lost_answers_are_unknown_and_answers_keep_their_order():
    outcomes = set()
    for seed in range(10):
        world = started(seed, store_lost=0.5)
        for host in world.hosts:
            assert [token for token, _ in host.node.results] == [1, 2]
            outcomes.update(outcome for _, outcome in host.node.results)
    assert outcomes == {"ok", "unknown"}


def test_a_disk_that_refuses_is_reported_and_a_node_that_gives_up_is_down():
    world = started()
    world.hosts[2].disk.faults.append(Fault("sync"))
    world.run(SECOND)
    assert not world.hosts[2].up
    assert world.hosts[2].stopped_because == "/data: EIO: sync /data/pings"


def test_a_power_cut_inside_a_disk_operation_ends_the_life():
    world = started()
    world.hosts[2].disk.operations_left = 1
    world.run(SECOND)
    assert not world.hosts[2].up
    world.hosts[2].start()
    world.run(SECOND)
    assert world.hosts[2].node.pings > 5


def test_a_failing_node_is_reported_with_the_seed_and_a_transcript():
    world = started(7)
    world.hosts[0].node.next_deadline = 10**12
    world.after(0, lambda: world.hosts[0].life.deliver("wake"))
    with pytest.raises(Violation, match="seed 7, step") as violation:
        world.run(SECOND)
    assert "receive" in str(violation.value)


def test_the_same_seed_gives_the_same_digest_whatever_the_hash_seed():
    script = "from tests.sim.test_world import digest; print(digest(5), digest(6))"
    outputs = set(outputs_under_two_hash_seeds(script))
    assert len(outputs) == 1
    assert len(set(outputs.pop().split())) == 2
