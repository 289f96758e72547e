"""Faults within a compaction: a process is killed, or the power goes, while a log's files are written and exchanged;
and faults after it, when the recovered log differs from what was appended.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from tidelog.effects import Event
from tidelog.model import TopicPartition
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.host import Host
from tidelog.sim.nemesis.strike import Kind, Strike, Trigger, same_life
from tidelog.sim.nemesis.triggers import trap

STEPS = (
    ("rename", ".cleaned"),
    ("rename", ".cleaned"),
    ("rename", ".swap"),
    ("rename", ".swap"),
    ("write", ".cleaned"),
    ("sync", ".cleaned"),
    ("rename", ".log"),
)


def at_exchange(strike: Strike) -> None:
    """Strike somewhere in the next exchange of files: a segment has up to four."""
    trap(strike, *strike.random.choice(STEPS), strike.random.choice((0, 1, 2, 3, 4, 6)))


class Compacted(Trigger):
    """Wait until a leader compacts this log, or any: isolate it from its followers and kill it, most often before it
    wrote its recovery point.
    """

    def __init__(self, strike: Strike, name: TopicPartition | None, delay: int, back: int) -> None:
        super().__init__(strike)
        self.name, self.delay, self.back = name, delay, back

    def happened(self, host: Host, event: Event) -> None:
        if event.kind != "log.compacted":
            return
        topic, _, number = str(event.fields["partition"]).rpartition("-")
        name = TopicPartition(topic, int(number))
        state = self.strike.atlas.ghosts.states.get(name)
        if state is not None and state.leader == host.broker_id and self.name in (None, name):
            self.strike.world.count("killed after compaction, left alone")
            self.strike.later(0, partial(_leave, self.strike, name, host, self.back))
            self.fire(host, self.delay, "kill")


def left_alone(strike: Strike) -> None:
    """Keep the followers of a compacted log down while its leader compacts it and is killed, or from then on.

    The leader recovers the log alone, from its last recovery point; the followers compare their logs with it later.
    """
    if any(isinstance(trigger, Compacted) for trigger in strike.nemesis.armed):
        return  # brokers that are always down compact nothing
    led = list(_led(strike))
    back = strike.world.micros + strike.drawn(4 * SECOND, 15 * SECOND)
    delay = strike.random.choice((0, 5 * MILLI, 300 * MILLI))
    if not led or strike.random.random() < 0.5:
        strike.arm(Compacted(strike, None, delay, back))
        return
    name, leader = strike.random.choice(led)
    strike.arm(Compacted(strike, name, delay, back))
    _leave(strike, name, leader, back)
    strike.later(strike.drawn(4 * SECOND, 8 * SECOND), partial(_kill_if, strike, leader, same_life(leader)))


def _leave(strike: Strike, name: TopicPartition, leader: Host, back: int) -> None:
    """Kill all replicas but the leader, and keep them down for a while."""
    if strike.nemesis.over:
        return
    for broker in strike.atlas.ghosts.assignments.get(name, ()):
        host = strike.world.hosts[broker]
        if host is not leader and host.running:
            strike.nemesis.kept_down[broker] = back
            strike.world.kill(host)


def _led(strike: Strike) -> Iterator[tuple[TopicPartition, Host]]:
    """Yield compacted partitions that continue with one replica, each with its leader."""
    ghosts, hosts = strike.atlas.ghosts, strike.world.hosts
    for name, state in sorted(ghosts.states.items()):
        ghost = ghosts.of(name)
        if ghost.compacted and ghost.min_in_sync == 1 and state.leader >= 0 and hosts[state.leader].running:
            yield name, hosts[state.leader]


def _kill_if(strike: Strike, host: Host, still: Callable[[], bool]) -> None:
    if still() and not strike.nemesis.over:
        strike.world.kill(host)


DRAWN: Mapping[str, Kind] = {"left_alone": left_alone}

KINDS: Mapping[str, Kind] = {"at_exchange": at_exchange}
