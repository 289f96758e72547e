"""A leadership that goes to and fro between replicas in sync, while they cannot hear each other.

By deaths alone it never does: who dies leaves the ISR, and comes back with its log cut. By preference it does, and what
one of them wrote while nobody fetched it is still there when it leads again: this is where KIP-101 and KIP-279 fail.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from tidelog.model import TopicPartition
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.host import Host
from tidelog.sim.nemesis.strike import Kind, Strike, same_life

PREFERRED = 0


class Handover(NamedTuple):
    """`leader` leads, and `heir`, who is preferred, is in sync."""

    name: TopicPartition
    leader: Host
    heir: Host


def _possible(strike: Strike) -> Iterator[Handover]:
    ghosts, hosts = strike.nemesis.cluster.suite.ghosts, strike.world.hosts
    for name, state in sorted(ghosts.states.items()):
        heir = ghosts.assignments[name][0]
        if 0 <= state.leader != heir and ghosts.in_sync(name, heir) and ghosts.in_sync(name, state.leader):
            yield Handover(name, hosts[state.leader], hosts[heir])


def to_and_fro(strike: Strike) -> None:
    """Shut the way between leader and heir, make the heir lead, and end it before they heard of each other. Where no
    preferred replica follows in sync, one is killed: it will, when it is back."""
    handovers = list(_possible(strike))
    if not handovers:
        _kill_a_preferred_leader(strike)
        return
    handover = strike.random.choice(handovers)
    name, leader, heir = handover
    network = strike.world.network
    network.block(leader.name, heir.name)
    network.block(heir.name, leader.name)
    controller = strike.nemesis.cluster.controller
    if strike.random.random() < 0.5 and controller not in (None, leader):
        assert controller is not None
        network.block(controller.name, leader.name)  # it does not hear that it was replaced
    alive = same_life(heir)
    strike.later(strike.drawn(2 * MILLI, 300 * MILLI), partial(elect_preferred, strike, name))
    strike.later(strike.drawn(600 * MILLI, 2 * SECOND), lambda: strike.world.kill(heir) if alive() else None)
    strike.later(strike.drawn(3 * SECOND, 6 * SECOND), network.heal)


def elect_preferred(strike: Strike, name: TopicPartition) -> None:
    strike.nemesis.cluster.admin.elect(PREFERRED, [name], lambda _: None)


def _kill_a_preferred_leader(strike: Strike) -> None:
    cluster = strike.nemesis.cluster
    first = {cluster.suite.ghosts.assignments[name][0] for name in cluster.suite.ghosts.states}
    running = [host for host in strike.world.hosts if host.running and host.broker_id in first]
    if running:
        strike.world.kill(strike.random.choice(running))


KINDS: Mapping[str, Kind] = {"to_and_fro": to_and_fro}
