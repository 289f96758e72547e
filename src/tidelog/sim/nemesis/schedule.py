"""The table of all kinds of faults, and the schedule that injects them: a swarm drawn per seed.

Every fault has a number and draws what it needs from its own random generator. Leaving one out therefore changes no
other, which is how a failing run is made smaller (`shrink`). Whenever a fault ends a broker's process, the nemesis
restarts it later.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from random import Random

from tidelog.effects import Event
from tidelog.sim.cluster import Cluster
from tidelog.sim.faults import SECOND
from tidelog.sim.host import Host
from tidelog.sim.nemesis import (
    clocks,
    compaction,
    coordinators,
    disks,
    elections,
    eligible_replicas,
    last_replicas,
    networks,
    processes,
    stale_coordinators,
    stores,
    triggers,
)
from tidelog.sim.nemesis.core import Core
from tidelog.sim.nemesis.strike import Atlas, Kind, Strike, Trigger
from tidelog.sim.world import World

GENERAL: Mapping[str, Kind] = {
    **processes.KINDS,
    **networks.KINDS,
    **disks.KINDS,
    **clocks.KINDS,
    **stores.KINDS,
    **triggers.KINDS,
    **elections.KINDS,
}
"""Kinds that every seed may draw."""

PARTICULAR: Mapping[str, Kind] = compaction.KINDS
"""Kinds that only seeds with compaction draw."""

SELDOM: Mapping[str, Kind] = networks.SELDOM
"""Kinds that were added later: a seed without them is the same run as before."""

FOLDERED: Mapping[str, Kind] = disks.DIRECTORY_KINDS
"""Kinds that only seeds with several log directories draw."""

DRAWN: Mapping[str, Kind] = {
    **processes.DRAWN,
    **stores.DRAWN,
    **clocks.DRAWN,
    **compaction.DRAWN,
    **coordinators.DRAWN,
    **elections.DRAWN,
    **stale_coordinators.DRAWN,
    **last_replicas.DRAWN,
    **eligible_replicas.DRAWN,
}
"""Kinds that were added last, each with its own random generator (`plan.dice_of`)."""

NEEDS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(compaction.DRAWN, ("compaction",)),
    **stale_coordinators.NEEDS,
    **last_replicas.NEEDS,
    **eligible_replicas.NEEDS,
}
"""The parts of the workload without which a kind has nothing to hit."""

KINDS: Mapping[str, Kind] = {**GENERAL, **PARTICULAR, **SELDOM, **FOLDERED, **DRAWN}


WEIGHTS = (0.2, 1.0, 1.0, 4.0)
RECKLESS = 0.04
"""The share of seeds in which loss may happen."""

UNCLEAN = 0.5
"""The share of those in which an out-of-sync broker may lead if no other can."""

PARTICULARS = 0.6
"""How likely a seed draws each kind that is only for its parts of the workload."""

SELDOMS = 0.15
"""How likely a seed draws each kind that was added later."""

LEFT_OUT = 0.1
"""The share of seeds that heal a core first."""


class Nemesis:
    """Injects the faults of a seed; a `world.Observer`.

    `kinds` are this seed's, with their `weights`; `pace` is the time between two faults. `struck` are the faults that
    happened, by number; `only` are the numbers of those that may. `armed` are triggers that wait. `later` are kinds
    that this seed has by their own random generators. `before_start` are actions before the next start of a broker.
    """

    def __init__(
        self,
        cluster: Cluster,
        kinds: tuple[str, ...] | None = None,
        only: Collection[int] | None = None,
        particular: Collection[str] = (),
        seldom: Collection[str] = (),
        foldered: Collection[str] = (),
        later: Mapping[str, Random] | None = None,
    ) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self._dice = dice = Random(self.world.random.getrandbits(64))
        self.atlas = Atlas(cluster.suite.ghosts, reckless=dice.random() < RECKLESS)
        if self.atlas.reckless and dice.random() < UNCLEAN:
            cluster.properties["unclean.leader.election.enable"] = "true"
        count = dice.choice((1, 2, 4, 8, len(GENERAL)))
        drawn = tuple(sorted(dice.sample(sorted(GENERAL), count)))
        self.kinds = kinds or drawn
        self.weights = tuple(dice.choice(WEIGHTS) for _ in self.kinds)
        if kinds is None:
            self._add(particular, "particular", PARTICULARS)
            self._add(seldom, "seldom", SELDOMS)
            self._add(foldered, "foldered", PARTICULARS)
            for kind, own in (later or {}).items():
                self.kinds += (kind,)
                self.weights += (own.choice(WEIGHTS),)
        self.pace = dice.choice((SECOND // 4, SECOND, 3 * SECOND))
        self.core = Core(cluster, Random(dice.getrandbits(64)))
        self.leaves_some_out = dice.random() < LEFT_OUT
        self.over = False
        self.only = only
        self.struck: dict[int, str] = {}
        self.armed: list[Trigger] = []
        self.before_start: dict[int, Callable[[], None]] = {}
        self.kept_down: dict[int, int] = {}
        """Until when a broker is not started."""
        self._numbers = 0
        self.world.observers.append(self)

    def __repr__(self) -> str:
        return f"<{'reckless ' if self.atlas.reckless else ''}nemesis of {', '.join(self.kinds)}>"

    def _add(self, kinds: Collection[str], group: str, share: float) -> None:
        """Add kinds that not every seed has, drawn with their own random generator."""
        dice = Random(f"{self.world.seed} {group}")
        added = tuple(sorted(kind for kind in kinds if dice.random() < share))
        self.kinds += added
        self.weights += tuple(dice.choice(WEIGHTS) for _ in added)

    def inject_next_fault(self) -> None:
        """Draw the next fault of the swarm and inject it, after scheduling the one that follows.

        The draws come first, so that a fault that `only` leaves out changes none of the others.
        """
        if self.over:
            return
        self.world.after(self._dice.randint(self.pace // 4, 2 * self.pace), self.inject_next_fault)
        kind = self._dice.choices(self.kinds, self.weights)[0]
        self._numbers += 1
        strike = Strike(self, self._numbers, kind, Random(self._dice.getrandbits(64)))
        if self.only is None or self._numbers in self.only:
            self.strike(strike)

    def strike(self, strike: Strike) -> None:
        self.struck[strike.number] = strike.kind
        self.world.note("nemesis", strike.kind.upper(), f"fault {strike.number}")
        self.world.count(f"fault: {strike.kind}")
        KINDS[strike.kind](strike)

    def end(self) -> None:
        """End the faults: heal everything, or all but a few brokers that the others must do without for a while."""
        self.over = True
        self.cluster.heal()
        self.cluster.relieve()
        if self.leaves_some_out:
            self.core.run_without_minority()

    # Coming back.

    def back(self, host: Host) -> None:
        """Start the broker's machine unless it runs, after the action planned for its start."""
        wait = self.kept_down.get(host.broker_id, 0) - self.world.micros
        if wait > 0 and not self.over:
            self.world.after(wait, partial(self.back, host))
        elif host.life is None and host.broker_id not in self.core.absent:
            self.before_start.pop(host.broker_id, _nothing)()
            host.start()

    # world.Observer: triggers, and brokers that went down.

    def stepped(self, world: World, host: Host) -> None:
        if self.armed:  # rarely
            for trigger in self.awaited():
                trigger.stepped(host)

    def happened(self, world: World, host: Host, event: Event) -> None:
        for trigger in self.awaited():
            trigger.happened(host, event)

    def tree_changed(self, world: World) -> None:
        for trigger in self.awaited():
            trigger.tree_changed()

    def ended(self, world: World, host: Host, how: str) -> None:
        self.atlas.ended(host)
        dice = Random(f"{world.seed} {host.broker_id} {host.lives}")
        delay = dice.choice((20_000, SECOND, 5 * SECOND, 15 * SECOND))
        world.after(dice.randint(delay // 2, delay), partial(self.back, host))

    def awaited(self) -> tuple[Trigger, ...]:
        return () if self.over else tuple(self.armed)

    def disarm(self, trigger: Trigger) -> None:
        if trigger in self.armed:
            self.armed.remove(trigger)


def _nothing() -> None:
    """The default action before a start."""
