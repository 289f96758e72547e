"""One broker's machine, and one life of the process on it: the `Node`, its connections and its session.

A `Host` outlives the processes that run on it. Whatever was under way to a `Life` that has ended is dropped. While a
process is paused, its inputs queue up and are delivered in order when it resumes: it wakes as a zombie that missed
everything since. While it is busy with one long input, the other inputs wait as well, but its session stays alive; the
effects of the long input come at its end, with the time of its beginning.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.effects import Effect
from tidelog.errors import ProtocolViolation
from tidelog.model import Endpoint, Time
from tidelog.node.node import Node
from tidelog.sim.carry import Carrier
from tidelog.sim.disk import PowerCut, SimDisk
from tidelog.sim.logged_tree import LoggedTree, OwnSession
from tidelog.sim.network import End
from tidelog.sim.store import Session

if TYPE_CHECKING:
    from tidelog.sim.world import World

WALL_START = 1_700_000_000_000
PRINCIPAL = "User:ANONYMOUS"
SPIN_LIMIT = 2_000
UNBROKEN = ("start", "receive")
"""Inputs that belong to a larger step: a start, and the arrival of frames."""


class Broker(Protocol):
    """What the world needs of a `Node`; every input but `start` is called by its name."""

    @property
    def next_deadline(self) -> int | None: ...

    def start(self, now: Time) -> Sequence[Effect]: ...


@dataclass(slots=True)
class Busy:
    """An input that takes `duration` microseconds, after `skips` other inputs."""

    duration: int
    skips: int


@dataclass(slots=True)
class Trouble:
    """What makes a machine worse than its world for a while.

    `sync_factor`: how much slower its disk syncs; `busy`: one input takes long; `silent_until`: the store is
    unreachable before that, while the session stays alive; the others override the faults of the world.
    """

    sync_factor: int = 1
    busy: Busy | None = None
    silent_until: int = 0
    store_delay: tuple[int, int] | None = None
    store_lost: float | None = None


class Host:
    """`life` is the running process, or None.

    Each machine has its own monotonic clock and may have a wrong wall clock, which jumps, and gains or loses `drift`
    milliseconds per second.
    """

    def __init__(self, world: "World", broker_id: int, endpoints: Sequence[Endpoint], disk: SimDisk) -> None:
        self.world = world
        self.broker_id = broker_id
        self.name = f"broker-{broker_id}"
        self.endpoints = tuple(endpoints)
        self.disk = disk
        self.random = Random(world.random.getrandbits(64))
        self.mono_offset = self.random.randrange(1, 1_000_000)
        self.wall_offset = 0
        self.drift = 0
        self.trouble = Trouble()
        self.life: Life | None = None
        self.lives = 0
        self.rack = ""
        self.stopped_because: str | None = None
        self.was_stopping = False
        """Whether the last life was in a clean shutdown when it ended."""

    def __repr__(self) -> str:
        return f"<{self.name} {self.life or 'down'}>"

    @property
    def node(self) -> Broker | None:
        return self.life.node if self.life is not None else None

    @property
    def up(self) -> bool:
        return self.life is not None

    @property
    def running(self) -> bool:
        return self.life is not None and not self.life.paused

    def now(self) -> Time:
        millis = self.world.micros // 1000
        wall = WALL_START + self.wall_offset + millis
        return Time(self.mono_offset + millis, wall + millis * self.drift // 1000 if self.drift else wall)

    def drifts(self, drift: int) -> None:
        """Set the drift from now on; the clock itself does not jump."""
        millis = self.world.micros // 1000
        self.wall_offset += millis * self.drift // 1000 - millis * drift // 1000
        self.drift = drift

    @property
    def silence(self) -> int:
        """How much longer the store is unreachable, in microseconds."""
        return max(0, self.trouble.silent_until - self.world.micros)

    def mend(self) -> None:
        """End all faults of disk and store."""
        self.disk.mend()
        self.trouble = Trouble()

    def start(self) -> None:
        assert self.life is None, f"{self.name} runs already"
        self.lives += 1
        self.stopped_because = None
        self.world.network.back(self.name)
        self.world.note(self.name, "START", f"life {self.lives}")
        for witness in self.world.witnesses:
            witness.starting(self)
        self.life = Life(self)
        self.life.start()

    def end_life(self, *, silent: bool) -> None:
        """End the process; the caller decides about the disk and the session."""
        life = self.life
        if life is not None:
            self.life = None
            self.was_stopping = life.stopping
            life.end()
            self.world.network.leave(life, silent=silent)


class Life:
    """The network's `Party` of a broker. `stopping`: a clean shutdown is under way; `paused`: inputs wait; `busy`: they
    wait for another input.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.world = host.world
        self.name = host.name
        self.node: Broker | None = None
        self.session: Session | OwnSession | None = None
        self.alive = True
        self.paused = False
        self.busy = False
        self.stopping = False
        self.backlog: deque[Callable[[], None]] = deque()
        self.ends: dict[int, End] = {}
        self.carrier = Carrier(self)
        self._wake_at: int | None = None
        self._spins = 0
        self._spun_at = -1
        self._began: Time | None = None
        """When the long input began."""

    def __repr__(self) -> str:
        return f"life {self.host.lives}{' paused' if self.paused else ''}{'' if self.alive else ' over'}"

    def start(self) -> None:
        try:
            self.node = self.world.build(self.host)
        except PowerCut:
            self.world.cut_off(self.host)
            return
        self.deliver("start")
        for endpoint in self.host.endpoints if self.alive else ():
            self.world.network.listen(endpoint.host, endpoint.port, self, endpoint.listener)
        if not isinstance(self.world.tree, LoggedTree):
            self.after(self.host.random.randint(200, 3_000), self.open_session)

    def _follow_log(self, tree: LoggedTree) -> None:
        """What the input made known to be committed changes the tree before its effects are carried out."""
        member = self.node.quorum if isinstance(self.node, Node) else None
        if member is None:
            return
        disk, before = self.host.disk, self.host.disk.quiet
        disk.quiet = True
        try:
            for _ in tree.follow(member):
                self.world.tree_changed()
        finally:
            disk.quiet = before
        if self.session is None or self.session.session != member.session:
            self.session = OwnSession(member.session) if member.session else None

    def open_session(self) -> None:
        self.session = session = self.world.tree.session()
        self.deliver("session_started", session.session)

    def end(self) -> None:
        self.alive = False
        self.node = None
        self.backlog.clear()
        self.ends.clear()

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Schedule an action of this life, in microseconds from now."""
        self.world.after(delay, lambda: action() if self.alive else None)

    # Inputs.

    def deliver(self, name: str, *arguments: Any) -> None:
        """Deliver one input to the node and carry out the effects that it returns."""
        if self.paused or not self.alive:
            self.postponed(partial(self.deliver, name, *arguments))
            return
        if self.host.trouble.busy is not None and self._takes_long(name, partial(self.deliver, name, *arguments)):
            return
        world = self.world
        world.trace.step += 1
        if name == "receive":
            world.trace.traffic(world.micros, self.name, name, *arguments)
        elif arguments:
            world.note(self.name, name, arguments)
        else:
            world.trace.line(world.micros, self.name, name, "[]")
        begun = world.meter.begin()
        try:
            effects = getattr(self.node, name)(*arguments, self._began or self.host.now())
        except PowerCut:
            world.cut_off(self.host)
            return
        finally:
            world.meter.end(begun, world.trace.step, name, arguments)
        if isinstance(world.tree, LoggedTree):
            self._follow_log(world.tree)
        try:
            for effect in effects:
                if self.alive:
                    self.carrier.carry_out(effect)
            while self.alive and self.carrier.at_once:
                self.carrier.disk_work(self.carrier.at_once.popleft())
        except PowerCut:
            world.cut_off(self.host)
        if self.alive:
            if not self.paused:
                self._plan_wake()
            world.stepped(self.host)  # also after a power loss within the effects: the first of them were carried out

    def postponed(self, action: Callable[[], None]) -> bool:
        """Whether the input waits because the process is paused, or is dropped because it is over."""
        if self.alive and self.paused:
            self.backlog.append(action)
        return self.paused or not self.alive

    def _plan_wake(self) -> None:
        deadline = self.node.next_deadline if self.node is not None else None
        if deadline is None or (self._wake_at is not None and self._wake_at <= deadline):
            return
        self._wake_at = deadline
        due = (deadline - self.host.mono_offset) * 1000
        self.after(max(0, due - self.world.micros), partial(self._wake, deadline))

    def _wake(self, planned: int) -> None:
        if self._wake_at != planned or self.postponed(partial(self._wake, planned)):
            return
        self._wake_at = None
        deadline = self.node.next_deadline if self.node is not None else None
        if deadline is not None and deadline <= self.host.now().mono:
            self._count_spin()
            self.deliver("wake")
        else:
            self._plan_wake()

    def _count_spin(self) -> None:
        """A node that requests a wake-up at the same time again and again is broken."""
        moment = self.host.now().mono
        self._spins = self._spins + 1 if moment == self._spun_at else 0
        self._spun_at = moment
        assert self._spins < SPIN_LIMIT, f"{self.name} requests wake-ups without end at {moment}"

    # Pauses.

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        """Resume with all queued inputs, in order."""
        if not self.busy:
            self.paused = False
            self._catch_up()

    def _catch_up(self) -> None:
        while self.backlog and self.alive and not self.paused:
            self.backlog.popleft()()

    # An input that takes long.

    def _takes_long(self, name: str, action: Callable[[], None]) -> bool:
        """Whether this input is the long one."""
        busy = self.host.trouble.busy
        if busy is None or name in UNBROKEN:
            return False
        busy.skips -= 1
        if busy.skips >= 0:
            return False
        self.host.trouble.busy = None
        self.paused = self.busy = True
        self.world.note(self.name, "BUSY", f"{name} for {busy.duration / 1e6:.3f} s")
        self.world.count("busy")
        self.after(busy.duration, partial(self._done, action, self.host.now()))
        return True

    def _done(self, action: Callable[[], None], began: Time) -> None:
        self.paused = self.busy = False
        self._began = began
        action()
        self._began = None
        self._catch_up()

    # network.Party.

    def connected(self, end: End) -> None:
        if not self.alive:
            self.world.network.close(end)
            return
        self.ends[end.number] = end
        self.deliver("connected", end.number, end.listener, end.other.party.name, PRINCIPAL)

    def connect_failed(self, number: int, reason: str) -> None:
        self.deliver("connect_failed", number, reason)

    def arrived(self, end: End, data: bytes) -> None:
        if self.paused or not self.alive:
            self.postponed(partial(self.arrived, end, data))
            return
        if self.ends.get(end.number) is not end:
            return
        if self.host.trouble.busy is not None and self._takes_long("arrived", partial(self.arrived, end, data)):
            return
        try:
            frames = end.reader.feed(data)
        except ProtocolViolation:
            self.world.network.reset(end.link)
            return
        if frames:
            for witness in self.world.witnesses:
                witness.received(self.host, end, frames)
            if end.put_back:
                end.put_back += map(bytes, frames)
            else:
                self.deliver("receive", end.number, frames)

    def deliver_again(self, end: End) -> None:
        """Deliver the frames that were put back, unless the link is still paused."""
        if end.put_back and not end.paused and self.ends.get(end.number) is end:
            frames, end.put_back = end.put_back, []
            self.deliver("receive", end.number, [memoryview(frame) for frame in frames])

    def disconnected(self, end: End) -> None:
        if self.postponed(partial(self.disconnected, end)):
            return
        if self.ends.get(end.number) is end:
            del self.ends[end.number]
            self.deliver("disconnected", end.number)
