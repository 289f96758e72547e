"""Faults around elections: a leadership that alternates, and a log end that is reported and then lost.

`to_and_fro`: a leadership alternates between replicas in sync that cannot reach each other. Deaths alone never cause
that: a broker that dies leaves the ISR and comes back with its log truncated. Preferred elections do, and what one of
them wrote while nobody fetched it is still there when it leads again: this is where KIP-101 and KIP-279 fail.

`end_told`: a broker reports its log end to a controller and then loses that end. All brokers in sync in some partition
are killed, so that the most complete log is to lead. One that would lead if it had as much as the others loses its
power as it answers, and returns while its answer is still under way. The controller, whose store is slow then, sees its
next life before it noticed that the broker was gone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import NamedTuple

from tidelog.controller.commands.elections import LOG_END_QUERY
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.host import Host
from tidelog.sim.nemesis.strike import Kind, Strike, Trigger, same_life
from tidelog.sim.network import Action, End, Link
from tidelog.wire.codec import decode_request, decode_response

PREFERRED = 0
EPOCHS = 23
PREFIX = 4
_INT16, _INT32 = Struct(">h"), Struct(">i")
WITHHELD = 20 * SECOND
"""The longest delay; controllers wait for 30 seconds."""

SLOW_STORE = (100 * MILLI, 400 * MILLI)
"""Longer than a registration takes after an earlier one has expired."""

NOTICED = 1500 * MILLI
"""By then the controller knows the new life."""

NEW_DISK = 0.5
"""How often the machine returns with an empty disk."""


class Handover(NamedTuple):
    """A possible change of leaders: `leader` leads, and `heir`, the preferred leader, is in sync."""

    name: TopicPartition
    leader: Host
    heir: Host


def _possible_handovers(strike: Strike) -> Iterator[Handover]:
    ghosts, hosts = strike.nemesis.cluster.suite.ghosts, strike.world.hosts
    for name, state in sorted(ghosts.states.items()):
        heir = ghosts.assignments[name][0]
        if 0 <= state.leader != heir and ghosts.in_sync(name, heir) and ghosts.in_sync(name, state.leader):
            yield Handover(name, hosts[state.leader], hosts[heir])


def to_and_fro(strike: Strike) -> None:
    """Block the way between leader and heir, elect the heir, and kill it before they reached each other.

    If no preferred replica follows in sync, kill one that leads: it will follow when it is back.
    """
    handovers = list(_possible_handovers(strike))
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
        network.block(controller.name, leader.name)  # it does not learn that it was replaced
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


def end_told(strike: Strike) -> None:
    """Kill all replicas in sync of a partition, and wait until one of them reports its log end."""
    ghosts, world = strike.atlas.ghosts, strike.world
    names = sorted(
        name for name, state in ghosts.states.items() if len(state.isr) > 1 and name.topic not in ghosts.deleting
    )
    if not names:
        return
    trigger = EndTold(strike)
    strike.arm(trigger, WITHHELD)
    world.witnesses.append(trigger)
    strike.later(WITHHELD, partial(_stop_watching, trigger))
    for broker in ghosts.states[strike.random.choice(names)].isr:
        if world.hosts[broker].running:
            world.kill(world.hosts[broker])
            strike.later(strike.random.randint(20 * MILLI, SECOND), partial(strike.nemesis.back, world.hosts[broker]))


class EndTold(Trigger):
    """A trigger and a `world.Witness`: requests and responses are read from the wire."""

    def __init__(self, strike: Strike) -> None:
        super().__init__(strike)
        self.pending: dict[tuple[Link, int], int] = {}

    def starting(self, host: Host) -> None:
        """Nothing is known about the life yet."""

    def received(self, host: Host, end: End, frames: Sequence[memoryview]) -> None:
        for frame in frames if end.listener else ():
            if _INT16.unpack_from(frame)[0] == EPOCHS:
                head, request = decode_request(frame)
                if request.replica_id == LOG_END_QUERY:
                    self.pending[end.link, head.correlation_id] = head.api_version

    def sent(self, host: Host, end: End, data: bytes) -> None:
        if self not in self.strike.nemesis.awaited() or not end.listener or not host.running:
            return
        for frame in _frames(data):
            version = self.pending.pop((end.link, _INT32.unpack_from(frame)[0]), None)
            if version is not None and self.matters(host, list(_reported_partitions(version, frame))):
                self.strike.nemesis.disarm(self)
                self.reported(host, end)
                return

    def matters(self, host: Host, names: Sequence[TopicPartition]) -> bool:
        """Whether the broker would lead, as far as the assignment order goes, and may lose what it reported."""
        ghosts = self.strike.atlas.ghosts
        first = (next((b for b in ghosts.assignments[n] if b in ghosts.states[n].recorded), -1) for n in names)
        return host.broker_id in first and self.strike.atlas.may_lose(host)

    def reported(self, host: Host, end: End) -> None:
        strike, world = self.strike, self.strike.world
        release = world.network.hold(end)
        strike.later(WITHHELD, release)
        controller = next(each for each in world.hosts if each.name == end.other.party.name)
        strike.arm(Registered(strike, host, release), WITHHELD)
        strike.later(0, partial(_lose_power, strike, host, same_life(host)))
        expires = world.faults.session_term
        strike.later(expires - 10 * MILLI, partial(_slow_store, strike, controller))
        strike.later(expires + SECOND, partial(_recover, controller))


class Registered(Trigger):
    """Wait until the broker has registered its next life: the response of the previous one arrives soon after."""

    def __init__(self, strike: Strike, host: Host, release: Action) -> None:
        super().__init__(strike)
        self.host, self.release = host, release
        self.epoch = strike.atlas.ghosts.epochs.get(host.broker_id)

    def tree_changed(self) -> None:
        if self.strike.atlas.ghosts.epochs.get(self.host.broker_id, self.epoch) != self.epoch:
            self.strike.nemesis.disarm(self)
            self.strike.later(NOTICED, self.release)


def _frames(data: bytes) -> Iterator[memoryview]:
    position = 0
    while position < len(data):
        start = position + PREFIX
        position = start + _INT32.unpack_from(data, position)[0]
        yield memoryview(data)[start:position]


def _reported_partitions(version: int, frame: memoryview) -> Iterator[TopicPartition]:
    """Yield the partitions whose log ends the response reports."""
    _, response = decode_response(EPOCHS, version, frame)
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.NONE:
                yield TopicPartition(topic.topic, partition.partition)


def _lose_power(strike: Strike, host: Host, still: Callable[[], bool]) -> None:
    if not still() or not strike.atlas.may_lose(host):
        return
    strike.world.count("power loss, end told")
    strike.world.lose_power(host)
    if strike.random.random() < NEW_DISK:
        strike.world.replace_disk(host)
    strike.later(strike.random.randint(20 * MILLI, SECOND), partial(strike.nemesis.back, host))


def _slow_store(strike: Strike, host: Host) -> None:
    if not strike.nemesis.over:
        host.trouble.store_delay = SLOW_STORE


def _recover(host: Host) -> None:
    host.trouble.store_delay = None


def _stop_watching(trigger: EndTold) -> None:
    trigger.strike.world.witnesses.remove(trigger)


DRAWN: Mapping[str, Kind] = {"end_told": end_told}
