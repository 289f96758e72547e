"""Rot in the log of a future coordinator: below where a start verifies the log, so it is found when the log is
replayed.

A broker stops cleanly, a bit of a record turns while it is down, and once it is in sync again it becomes the leader.
Other replicas in sync have the same batch intact, and the atlas keeps it so: the broker must replay what they have, or
wait.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from random import Random

from tidelog.errors import ApiError
from tidelog.model import INTERNAL_TOPICS, TopicPartition
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.host import Host
from tidelog.sim.nemesis.elections import elect_preferred
from tidelog.sim.nemesis.processes import stop_or_kill
from tidelog.sim.nemesis.strike import Kind, Strike, Trigger
from tidelog.wire.records import HEADER_BYTES, batches

FIRST = 0.7
"""How often the preferred leader is chosen, if it is in sync."""

LATEST, FEW = 0.7, 4
"""How often one of the last few batches is chosen: they were not replaced since."""


def coordinator_rot(strike: Strike) -> None:
    """Inject the fault.

    Nothing survives if all others lose what this broker cannot read, so reckless seeds do not have it.
    """
    held = list(_in_sync_replicas(strike))
    if strike.atlas.reckless or not held:
        return
    preferred = [(name, host) for name, host in held if _assignment(strike, name)[0] == host.broker_id]
    chosen = preferred if preferred and strike.random.random() < FIRST else held
    name, host = strike.random.choice(chosen)
    waiting = strike.nemesis.before_start.get(host.broker_id)

    def starts() -> None:
        if waiting is not None:
            waiting()
        if (
            not strike.nemesis.over and host.stopped_because == ""
        ):  # it stopped cleanly, so the start does not read the log
            _flip_bit(strike, name, host)

    strike.nemesis.before_start[host.broker_id] = starts
    stop_or_kill(strike, host)


def _assignment(strike: Strike, name: TopicPartition) -> tuple[int, ...]:
    return strike.atlas.ghosts.assignments[name]


def _in_sync_replicas(strike: Strike) -> Iterator[tuple[TopicPartition, Host]]:
    """Yield replicas of the internal topics that are in sync and run."""
    ghosts, hosts = strike.atlas.ghosts, strike.world.hosts
    for name in sorted(ghosts.states):
        for broker in ghosts.assignments[name] if name.topic in INTERNAL_TOPICS else ():
            if ghosts.in_sync(name, broker) and hosts[broker].running:
                yield name, hosts[broker]


def _flip_bit(strike: Strike, name: TopicPartition, host: Host) -> None:
    """Flip a bit of some record whose batch another replica has, too."""
    ghosts = strike.atlas.ghosts
    others = [other for held, other in _in_sync_replicas(strike) if held == name and other is not host]
    whole = {data for other in others for _, _, data in _batches(other, name)}
    candidates = [(path, position, data) for path, position, data in _batches(host, name) if data in whole]
    if not candidates or not strike.atlas.spares(host, {name}):
        return
    latest = strike.random.random() < LATEST
    path, position, data = strike.random.choice(candidates[-FEW:] if latest else candidates)
    host.disk.flip(path, position + _within(strike.random, data))
    ghosts.rot[host.broker_id, name] = host.disk.inode(path)
    strike.world.note(host.name, "ROT", path)
    strike.world.count("rot for a coordinator")
    strike.arm(Returned(strike, name, host), 20 * SECOND)


def _within(dice: Random, batch: bytes) -> int:
    return dice.randint(HEADER_BYTES, len(batch) - 1)


def _batches(host: Host, name: TopicPartition) -> Iterator[tuple[str, int, bytes]]:
    """Yield (path, position, bytes) of the batches with records in a replica's files; the last file may end torn."""
    folder = f"/{name.topic}-{name.partition}/"
    for path in sorted(path for path in host.disk.names if folder in path and path.endswith(".log")):
        content = bytes(host.disk.inode(path).cached)
        try:
            for batch in batches(content):
                if batch.length > HEADER_BYTES:
                    yield path, batch.position, content[batch.position : batch.end]
        except ApiError:
            continue


class Returned(Trigger):
    """Wait until the broker is in sync again, and make it the leader soon."""

    def __init__(self, strike: Strike, name: TopicPartition, host: Host) -> None:
        super().__init__(strike)
        self.name, self.host = name, host

    def tree_changed(self) -> None:
        if self.host.running and self.strike.atlas.ghosts.in_sync(self.name, self.host.broker_id):
            self.strike.nemesis.disarm(self)
            self.strike.later(self.strike.drawn(50 * MILLI, SECOND), partial(_lead, self.strike, self.name, self.host))


def _lead(strike: Strike, name: TopicPartition, host: Host) -> None:
    """Make the broker the leader: by a preferred election, or by killing the replicas preferred to it."""
    ghosts, world = strike.atlas.ghosts, strike.world
    if strike.nemesis.over or not host.running or not ghosts.in_sync(name, host.broker_id):
        return
    order = _assignment(strike, name)
    if order[0] == host.broker_id:
        elect_preferred(strike, name)
        return
    for broker in {*order[: order.index(host.broker_id)], ghosts.states[name].leader} - {host.broker_id, -1}:
        if world.hosts[broker].running:
            world.kill(world.hosts[broker])


DRAWN: Mapping[str, Kind] = {"coordinator_rot": coordinator_rot}
