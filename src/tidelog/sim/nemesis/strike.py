"""One fault that happens now (`Strike`), and which brokers may lose data now (`Atlas`).

Invariants of the atlas: a broker's unsynced data may go only where the ghosts still forbid loss afterwards, so that a
lost record is always a bug. A `doomed` broker (its power goes at this very moment) counts as having lost its data
already: two brokers are never judged as if each were alone. So does a replica with rot, because its next unclean start
may truncate its log there. In a reckless seed every broker may be hit at any time, and the ghosts say what may be lost.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Protocol

from tidelog.effects import Event
from tidelog.model import TopicPartition
from tidelog.sim.checks.ghosts import Ghost, Ghosts
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import GO_ON, KILL, POWER, REFUSE, SECOND
from tidelog.sim.host import Host
from tidelog.sim.world import World


class Atlas:
    def __init__(self, ghosts: Ghosts, *, reckless: bool) -> None:
        self.ghosts = ghosts
        self.reckless = reckless
        self.doomed: set[int] = set()

    def __repr__(self) -> str:
        return f"<atlas{', reckless' if self.reckless else ''}, doomed {sorted(self.doomed)}>"

    def may_lose(self, host: Host, held: Collection[TopicPartition] | None = None) -> bool:
        """Whether the broker's unsynced data, or all it has of these partitions, may be lost without loss becoming
        legitimate.
        """
        return self.reckless or self.spares(host, held)

    def spares(self, host: Host, held: Collection[TopicPartition] | None = None) -> bool:
        """As `may_lose`, but also in a reckless seed."""
        gone = {host.broker_id} | self.doomed
        return all(
            self._survives(ghost, gone)
            for ghost in map(self.ghosts.of, self.ghosts.assignments)
            if host.broker_id in self.ghosts.assignments[ghost.name] and (held is None or ghost.name in held)
        )

    def _survives(self, ghost: Ghost, gone: Collection[int]) -> bool:
        lossy = ghost.lossy.union(gone, self.ghosts.rotten(ghost.name))
        state = self.ghosts.states.get(ghost.name)
        return len(lossy) < ghost.min_in_sync and (state is None or not lossy.issuperset(state.recorded))

    def doom(self, host: Host) -> bool:
        """Return whether the broker may lose its power right now, and if so count its data as lost."""
        if self.may_lose(host):
            self.doomed.add(host.broker_id)
            return True
        return False

    def ended(self, host: Host) -> None:
        """Forget a doomed broker whose life has ended: from here on the ghosts know."""
        self.doomed.discard(host.broker_id)

    # Verdicts that a disk requests when a fault strikes.

    def power_or_kill(self, host: Host) -> str:
        return POWER if self.doom(host) else KILL

    def lossy_refusal(self, host: Host) -> str:
        """Refuse an fsync if the data may be lost.

        A failed fsync has lost what was dirty, whatever the next one returns: it counts as a power loss.
        """
        if not self.may_lose(host):
            return GO_ON
        self.ghosts.lost_power(host.broker_id)
        return REFUSE


class Schedule(Protocol):
    """What faults need of `schedule.Nemesis`.

    `armed` are triggers that wait; `before_start` are actions before a broker's next start, `kept_down` the time before
    which a broker is not started; `over`: no fault may strike any more.
    """

    cluster: Cluster
    world: World
    atlas: Atlas
    armed: list["Trigger"]
    before_start: dict[int, Callable[[], None]]
    kept_down: dict[int, int]
    over: bool

    def back(self, host: Host) -> None: ...

    def awaited(self) -> tuple["Trigger", ...]: ...

    def disarm(self, trigger: "Trigger") -> None: ...


@dataclass(slots=True)
class Strike:
    nemesis: Schedule
    number: int
    kind: str
    random: Random

    @property
    def world(self) -> World:
        return self.nemesis.world

    @property
    def atlas(self) -> Atlas:
        return self.nemesis.atlas

    def running(self) -> Host | None:
        """Return some broker whose process runs and is not paused."""
        up = [host for host in self.world.hosts if host.running]
        return self.random.choice(up) if up else None

    def losable(self) -> Host | None:
        """Return some running broker, if its unsynced data may be lost."""
        host = self.running()
        return host if host is not None and self.atlas.may_lose(host) else None

    def pair(self) -> tuple[Host, Host]:
        one, other = self.random.sample(self.world.hosts, 2)
        return one, other

    def later(self, delay: int, action: Callable[[], None]) -> None:
        self.world.after(delay, action)

    def drawn(self, *choices: int) -> int:
        """Return a duration between half of one of these and all of it, in microseconds."""
        most = self.random.choice(choices)
        return self.random.randint(most // 2, most)

    def arm(self, trigger: "Trigger", lasts: int = 10 * SECOND) -> None:
        """Wait for the trigger, at most for `lasts` microseconds."""
        self.nemesis.armed.append(trigger)
        self.later(lasts, partial(self.nemesis.disarm, trigger))


Kind = Callable[[Strike], None]


def same_life(host: Host) -> Callable[[], bool]:
    """Return a function that says whether the process that runs now still runs and is not paused."""
    life = host.lives
    return lambda: host.running and host.lives == life


class Trigger:
    """A fault that waits for something to happen. The base class waits for nothing; subclasses override what they need.

    `Nemesis` passes it every step and event while it is armed.
    """

    def __init__(self, strike: Strike) -> None:
        self.strike = strike

    def stepped(self, host: Host) -> None:
        """The broker took a step."""

    def happened(self, host: Host, event: Event) -> None:
        """The broker emitted an event."""

    def tree_changed(self) -> None:
        """The metadata store changed."""

    def fire(self, host: Host, delay: int, what: str) -> None:
        """Disarm, and hit this life of the broker after the delay."""
        self.strike.nemesis.disarm(self)
        still, nemesis = same_life(host), self.strike.nemesis
        self.strike.later(delay, lambda: HITS[what](self.strike, host) if still() and not nemesis.over else None)


def _kill(strike: Strike, host: Host) -> None:
    strike.world.kill(host)


def _power(strike: Strike, host: Host) -> None:
    if strike.atlas.may_lose(host):
        strike.world.lose_power(host)
    else:
        strike.world.kill(host)


def _pause(strike: Strike, host: Host) -> None:
    strike.world.pause(host, strike.drawn(SECOND, 20 * SECOND))


def _lose_session(strike: Strike, host: Host) -> None:
    strike.world.lose_session(host)


def _isolate(strike: Strike, host: Host) -> None:
    strike.world.network.isolate(host.name, [other.name for other in strike.world.hosts])
    strike.later(strike.drawn(SECOND, 8 * SECOND), strike.world.network.heal)


HITS: Mapping[str, Callable[[Strike, Host], None]] = {
    "kill": _kill,
    "power": _power,
    "pause": _pause,
    "session": _lose_session,
    "isolate": _isolate,
}
