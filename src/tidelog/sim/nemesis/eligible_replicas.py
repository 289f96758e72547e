"""Faults while a partition has eligible leader replicas (KIP-966), one after the other.

All in-sync replicas but one are taken down, as in `last_replicas`. Then sessions end while the processes go on,
replicas return after clean and unclean ends in any order, the last one loses its power or its disk, the partition
moves or its move is cancelled, its `min.insync.replicas` changes, and the controller is paused, cut off or killed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tidelog.effects import CONTROLLER
from tidelog.model import TopicPartition
from tidelog.sim.clients.admin import Admin
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.host import Host
from tidelog.sim.nemesis.last_replicas import leave_alone
from tidelog.sim.nemesis.processes import stop_or_kill
from tidelog.sim.nemesis.strike import Kind, Strike
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

OPTION = "min.insync.replicas"
CANCELS = 0.4

Action = Callable[[Strike, TopicPartition], None]


def eligible_replicas(strike: Strike) -> None:
    leave_alone(strike, _go_on)


def _go_on(strike: Strike, name: TopicPartition, _last: Host, _still: Callable[[], bool]) -> None:
    delay = 0
    for _ in range(strike.random.randint(2, 6)):
        action = strike.random.choice(sorted(ACTIONS))
        strike.later(delay, partial(_act, strike, name, action))
        delay += strike.random.randint(0, strike.random.choice((100 * MILLI, SECOND, 4 * SECOND)))


def _act(strike: Strike, name: TopicPartition, action: str) -> None:
    state = strike.atlas.ghosts.states.get(name)
    if strike.nemesis.over or state is None or name.topic in strike.atlas.ghosts.deleting:
        return
    few = "eligible" if state.elr else "alone"
    strike.world.count(f"{few}: {action}")
    ACTIONS[action](strike, name)


def _known(strike: Strike, name: TopicPartition, *, running: bool) -> Host | None:
    """One of the brokers that may have everything committed."""
    hosts = strike.world.hosts
    found = [hosts[broker] for broker in strike.atlas.ghosts.states[name].recorded if hosts[broker].running == running]
    return strike.random.choice(found) if found else None


def _lose_session(strike: Strike, name: TopicPartition) -> None:
    host = _known(strike, name, running=True)
    if host is not None:
        strike.world.lose_session(host, notice_delay=strike.random.choice((0, 0, 3 * SECOND)))


def _lose_all_sessions(strike: Strike, _name: TopicPartition) -> None:
    for host in strike.world.hosts:
        if host.running:
            strike.world.lose_session(host)


def _start(strike: Strike, name: TopicPartition) -> None:
    host = _known(strike, name, running=False)
    if host is not None and host.life is None:
        strike.nemesis.kept_down.pop(host.broker_id, None)
        strike.nemesis.back(host)


def _kill_then_stop(strike: Strike, name: TopicPartition) -> None:
    """End unclean, then clean."""
    _end_twice(strike, name, strike.world.kill, partial(stop_or_kill, strike))


def _stop_then_kill(strike: Strike, name: TopicPartition) -> None:
    """End clean, then unclean."""
    _end_twice(strike, name, partial(stop_or_kill, strike), strike.world.kill)


def _end_twice(
    strike: Strike, name: TopicPartition, first: Callable[[Host], None], second: Callable[[Host], None]
) -> None:
    host = _known(strike, name, running=True)
    if host is None:
        return
    first(host)
    strike.later(SECOND, partial(_back, strike, host))
    strike.later(strike.drawn(3 * SECOND, 8 * SECOND), partial(_end, strike, host, second))


def _back(strike: Strike, host: Host) -> None:
    if not strike.nemesis.over:
        strike.nemesis.back(host)


def _end(strike: Strike, host: Host, how: Callable[[Host], None]) -> None:
    if host.running and not strike.nemesis.over:
        how(host)


def _lose_power(strike: Strike, name: TopicPartition) -> None:
    host = _known(strike, name, running=True)
    if host is None or not strike.atlas.may_lose(host):
        return
    strike.world.lose_power(host)
    if strike.random.random() < 0.5:
        strike.world.replace_disk(host)


def _move(strike: Strike, name: TopicPartition) -> None:
    replicas = strike.atlas.ghosts.assignments[name]
    brokers = range(len(strike.world.hosts))
    target = None if strike.random.random() < CANCELS else strike.random.sample(brokers, len(replicas))
    adding, _ = strike.atlas.ghosts.reassigning.get(name, ((), ()))
    if target is not None and adding:
        target = target[: len(replicas) - len(adding)]
    requested = ReassignablePartition(partition_index=name.partition, replicas=target)
    topic = ReassignableTopic(name=name.topic, partitions=[requested])
    _admin(strike).ask(AlterPartitionReassignmentsRequest(topics=[topic]), CONTROLLER, _ignore)


def _change_least(strike: Strike, name: TopicPartition) -> None:
    """Change the option and change it back, whatever happens meanwhile."""
    now = strike.atlas.ghosts.min_in_sync(name.topic)
    for value, delay in ((strike.random.choice((1, 2)), 0), (now, strike.drawn(2 * SECOND, 6 * SECOND))):
        strike.later(delay, partial(_admin(strike).configure, name.topic, OPTION, str(value), _ignore))


def _hit_controller(strike: Strike, _name: TopicPartition) -> None:
    host = strike.nemesis.cluster.controller
    if host is None or not host.running:
        return
    how = strike.random.choice(("pause", "isolate", "session", "kill"))
    if how == "pause":
        strike.world.pause(host, strike.drawn(4 * SECOND, 20 * SECOND))
    elif how == "isolate":
        strike.world.network.isolate(host.name, [other.name for other in strike.world.hosts])
        strike.later(strike.drawn(SECOND, 8 * SECOND), strike.world.network.heal)
    elif how == "session":
        strike.world.lose_session(host, notice_delay=strike.random.choice((0, 3 * SECOND)))
    else:
        strike.world.kill(host)


def _admin(strike: Strike) -> Admin:
    return Admin(strike.world, f"eligible-{strike.number}-{strike.random.getrandbits(32):08x}")


def _ignore(_response: object) -> None:
    """Whether the cluster agrees is no matter: a partition may be deleted, and a target may be dead."""


ACTIONS: Mapping[str, Action] = {
    "session lost": _lose_session,
    "all sessions lost": _lose_all_sessions,
    "started": _start,
    "killed, then stopped": _kill_then_stop,
    "stopped, then killed": _stop_then_kill,
    "power lost": _lose_power,
    "moved": _move,
    "min.insync.replicas changed": _change_least,
    "controller hit": _hit_controller,
}

DRAWN: Mapping[str, Kind] = {"eligible_replicas": eligible_replicas}

NEEDS: Mapping[str, Sequence[str]] = {"eligible_replicas": ("elr",)}
