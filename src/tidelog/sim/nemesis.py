"""Who breaks the world: faults at drawn moments, of the kinds that a seed has.

Every fault has a number, and draws what it needs from dice of its own: one that is left out changes no other, which is
how a failing run is made smaller (`shrink`). Every broker that it takes down it also brings back. It never destroys the
last good copy: a power loss is drawn only where the invariants still forbid loss afterwards, so that a lost record is
always a bug.
"""

from collections.abc import Callable, Collection
from functools import partial
from random import Random

from tidelog.effects import Event
from tidelog.sim.cluster import Cluster
from tidelog.sim.disk import Fault
from tidelog.sim.faults import SECOND
from tidelog.sim.host import Host
from tidelog.sim.world import World

KINDS = (
    "kill",
    "power_loss",
    "cut_in_disk",
    "pause",
    "long_pause",
    "stop",
    "session",
    "split",
    "one_way",
    "isolate",
    "reset",
    "clock",
    "cut_after_truncation",
    "disk_error",
    "disk_full",
    "new_disk",
)


WAITING = 10_000
"""Faults that wait for their moment are numbered from here on: how often it comes depends on everything else."""


class Nemesis:
    """`kinds` are this seed's (a swarm: most seeds have only some); `pace` is the time between two faults. `struck` are
    the faults that happened, by number; `only` are the numbers of those that may."""

    def __init__(
        self, cluster: Cluster, kinds: tuple[str, ...] | None = None, only: Collection[int] | None = None
    ) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.random = Random(self.world.random.getrandbits(64))
        count = self.random.randint(1, len(KINDS))
        self.kinds = kinds or tuple(sorted(self.random.sample(KINDS, count)))
        self.pace = self.random.choice((300_000, SECOND, 3 * SECOND))
        self.over = False
        self.only = only
        self.struck: dict[int, str] = {}
        self._dice = Random(self.random.getrandbits(64))
        self._numbers = 0
        self._waiting = WAITING
        if "cut_after_truncation" in self.kinds:
            self.world.observers.append(self)

    def __repr__(self) -> str:
        return f"<nemesis of {', '.join(self.kinds)}>"

    def start(self) -> None:
        if self.over:
            return
        self.world.after(self._dice.randint(self.pace // 4, 2 * self.pace), self.start)
        kind = self._dice.choice(self.kinds)
        self.random = Random(self._dice.getrandbits(64))
        self._numbers += 1
        if self._may_strike(self._numbers, kind):
            action: Callable[[], None] = getattr(self, kind)
            action()

    def _may_strike(self, number: int, kind: str) -> bool:
        if self.only is not None and number not in self.only:
            return False
        self.struck[number] = kind
        self.world.note("nemesis", kind.upper(), f"fault {number}")
        return True

    # world.Observer: faults that wait for their moment.

    def stepped(self, world: World, host: Host) -> None:
        """Nothing waits for a step."""

    def ended(self, world: World, host: Host, how: str) -> None:
        """Nor for an end."""

    def tree_changed(self, world: World) -> None:
        """Nor for the tree."""

    def happened(self, world: World, host: Host, event: Event) -> None:
        """The power goes while a truncation is on its way to the platter."""
        if event.kind == "log.truncate" and not self.over and self.random.random() < 0.5 and self.may_lose(host):
            self._waiting += 1
            if self._may_strike(self._waiting, "cut_after_truncation"):
                world.after(self.random.randint(0, 300_000), partial(self._cut_at_last, host, host.lives))

    def _cut_at_last(self, host: Host, life: int) -> None:
        if host.running and host.lives == life and self.may_lose(host):
            self.world.lose_power(host)
            self.back_later(host)

    # Choosing.

    def running(self) -> Host | None:
        up = [host for host in self.world.hosts if host.running]
        return self.random.choice(up) if up else None

    def may_lose(self, host: Host) -> bool:
        """Whether the broker's unsynced data may go without loss becoming legitimate."""
        ghosts = self.cluster.suite.ghosts
        for name, assigned in ghosts.assignments.items():
            ghost, state = ghosts.of(name), ghosts.states.get(name)
            if host.broker_id in assigned and (
                len(ghost.lossy | {host.broker_id}) > ghost.min_in_sync - 1
                or (state is not None and state.isr == (host.broker_id,))
            ):
                return False
        return True

    def back_later(self, host: Host) -> None:
        delay = self.random.choice((20_000, SECOND, 5 * SECOND, 15 * SECOND))
        self.world.after(self.random.randint(delay // 2, delay), partial(self.back, host))

    def back(self, host: Host) -> None:
        if host.life is None:
            host.start()

    # Kinds.

    def kill(self) -> None:
        host = self.running()
        if host is not None:
            self.world.kill(host)
            self.back_later(host)

    def power_loss(self) -> None:
        host = self.running()
        if host is not None and self.may_lose(host):
            self.world.lose_power(host)
            self.back_later(host)

    def cut_in_disk(self) -> None:
        """The power goes within one of the next disk operations."""
        host = self.running()
        if host is not None and self.may_lose(host):
            self.cluster.suite.ghosts.lost_power(host.broker_id)
            host.disk.operations_left = self.random.randint(0, 30)
            self.world.after(SECOND, partial(self._cut_or_spared, host))

    def _cut_or_spared(self, host: Host) -> None:
        if host.life is not None and host.disk.operations_left is not None:
            self.world.lose_power(host)
        self.back_later(host)

    def pause(self) -> None:
        host = self.running()
        if host is not None:
            self.world.pause(host, self.random.randint(10_000, 3 * SECOND))

    def long_pause(self) -> None:
        host = self.running()
        if host is not None:
            self.world.pause(host, self.random.randint(3 * SECOND, 30 * SECOND))

    def stop(self) -> None:
        host = self.running()
        if host is not None:
            self.world.stop(host)
            self.world.after(5 * SECOND, partial(self._stopped_or_killed, host, host.lives))

    def _stopped_or_killed(self, host: Host, life: int) -> None:
        if host.life is not None and host.lives == life:
            self.world.kill(host)
        self.back_later(host)

    def session(self) -> None:
        host = self.running()
        if host is not None:
            self.world.lose_session(host)

    def split(self) -> None:
        one, other = self.random.sample(self.world.hosts, 2)
        self.world.network.block(one.name, other.name)
        self.world.network.block(other.name, one.name)
        self.heal_later()

    def one_way(self) -> None:
        one, other = self.random.sample(self.world.hosts, 2)
        self.world.network.block(one.name, other.name)
        self.heal_later()

    def isolate(self) -> None:
        host = self.random.choice(self.world.hosts)
        self.world.network.isolate(host.name, [other.name for other in self.world.hosts])
        self.heal_later()

    def heal_later(self) -> None:
        self.world.count("partition")
        self.world.after(self.random.choice((200_000, 2 * SECOND, 12 * SECOND)), self.world.network.heal)

    def reset(self) -> None:
        if self.world.network.links:
            self.world.network.reset(self.random.choice(self.world.network.links))

    def cut_after_truncation(self) -> None:
        """Makes truncations likely; `happened` waits for them."""
        self.kill()

    def disk_error(self) -> None:
        """Operations of one kind fail; a failed fsync has lost what was dirty, whatever the next one says."""
        host = self.running()
        operation = self.random.choice(("write", "sync", "read", "rename", "*"))
        if host is not None and self.may_lose(host):
            self.cluster.suite.ghosts.lost_power(host.broker_id)
            host.disk.faults.append(
                Fault(operation, after=self.random.randint(0, 20), times=self.random.choice((1, -1)))
            )
            self.world.after(SECOND, partial(self._repair, host))

    def disk_full(self) -> None:
        host = self.running()
        if host is not None:
            host.disk.capacity = host.disk.used() + self.random.randint(0, 5_000)
            self.world.after(2 * SECOND, partial(self._repair, host))

    def _repair(self, host: Host) -> None:
        """The disk works again; the broker, whose folder stays offline until then, is started anew."""
        host.disk.faults.clear()
        host.disk.capacity = None
        if host.life is not None:
            self.world.kill(host)
        self.back_later(host)

    def new_disk(self) -> None:
        host = self.running()
        if host is not None and self.may_lose(host):
            self.world.lose_power(host)
            host.disk.erase()
            self.back_later(host)

    def clock(self) -> None:
        self.random.choice(self.world.hosts).wall_offset += self.random.randint(-100_000, 100_000)
