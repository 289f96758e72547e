"""Faults of the last replica in sync: its power or its disk goes while the others are down (KIP-966).

The others stop in order, or are killed, and stay down for a while. Once one replica is alone in sync, its machine loses
its power, or the disk too, or it stops in order and finds an empty disk at its next start. None of this may lose what
was acknowledged, as far as the atlas allows it: the replicas that went before have all that was committed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tidelog.model import TopicPartition
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.host import Host
from tidelog.sim.nemesis.processes import stop_or_kill
from tidelog.sim.nemesis.strike import Kind, Strike, Trigger, same_life

WAITS = 25 * SECOND
ORDERLY = 0.7
"""How often the others stop in order."""
ENDS = ("power", "disk", "stopped", "stopped")


Then = Callable[[Strike, TopicPartition, Host, Callable[[], bool]], None]
"""What follows once a broker is alone in sync: the partition, the broker, and whether its process still runs."""


def last_replica(strike: Strike) -> None:
    leave_alone(strike, _hit)


def leave_alone(strike: Strike, then: Then) -> None:
    """Take all but one in-sync replica of a partition down, and call `then` once that one is alone in sync."""
    ghosts, hosts = strike.atlas.ghosts, strike.world.hosts
    names = [
        name
        for name, state in sorted(ghosts.states.items())
        if len(state.isr) > 1 and name.topic not in ghosts.deleting and all(hosts[b].running for b in state.isr)
    ]
    if not names:
        return
    name = strike.random.choice(names)
    members = list(ghosts.states[name].isr)
    last = members.pop(strike.random.randrange(len(members)))
    strike.arm(Alone(strike, name, hosts[last], then), WAITS)
    delay = 0
    for broker in members:
        delay += strike.random.randint(0, strike.random.choice((100 * MILLI, 2 * SECOND)))
        strike.later(delay, partial(_take_down, strike, hosts[broker]))


def _take_down(strike: Strike, host: Host) -> None:
    if strike.nemesis.over or not host.running:
        return
    strike.nemesis.kept_down[host.broker_id] = strike.world.micros + strike.drawn(4 * SECOND, 12 * SECOND)
    if strike.random.random() < ORDERLY:
        stop_or_kill(strike, host)
    else:
        strike.world.kill(host)


class Alone(Trigger):
    """Wait until the broker is the only one in sync."""

    def __init__(self, strike: Strike, name: TopicPartition, host: Host, then: Then) -> None:
        super().__init__(strike)
        self.name, self.host, self.then = name, host, then

    def tree_changed(self) -> None:
        state = self.strike.atlas.ghosts.states.get(self.name)
        if state is not None and state.isr == (self.host.broker_id,):
            self.strike.nemesis.disarm(self)
            delay = self.strike.random.randint(0, self.strike.random.choice((20 * MILLI, SECOND)))
            self.strike.later(delay, partial(self.then, self.strike, self.name, self.host, same_life(self.host)))


def _hit(strike: Strike, _name: TopicPartition, host: Host, still: Callable[[], bool]) -> None:
    """End the last replica."""
    if strike.nemesis.over or not still() or not strike.atlas.may_lose(host):
        return
    how = strike.random.choice(ENDS)
    strike.world.count(f"last replica: {how}")
    if how == "stopped":
        strike.nemesis.before_start[host.broker_id] = partial(_replace_disk, strike, host)
        stop_or_kill(strike, host)
        return
    strike.world.lose_power(host)
    if how == "disk":
        strike.world.replace_disk(host)


def _replace_disk(strike: Strike, host: Host) -> None:
    """The machine returns with an empty disk, if that may be now."""
    if strike.nemesis.over or not strike.atlas.may_lose(host):
        return
    strike.world.note(host.name, "DISK REPLACED", "")
    strike.atlas.ghosts.lost_power(host.broker_id)
    host.disk.lose_power()
    strike.world.replace_disk(host)


DRAWN: Mapping[str, Kind] = {"last_replica": last_replica}

NEEDS: Mapping[str, Sequence[str]] = {"last_replica": ("elr",)}
