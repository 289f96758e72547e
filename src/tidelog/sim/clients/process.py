"""The process that a client machine runs in: its connections, clock, wake-ups, pauses and end.

As `shell/transport.py` runs a `tidelog.client` machine on sockets, this runs it in the world, without blocking: the
owner of the process calls the machine, passes the effects to `carry_out`, and is notified after each turn.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Generic, TypeVar

from tidelog.client.backoff import Entropy
from tidelog.client.client import Client
from tidelog.client.options import Address
from tidelog.effects import Close, Connect, Effect, Send
from tidelog.model import Time
from tidelog.sim.host import WALL_START
from tidelog.sim.network import End
from tidelog.sim.world import CLIENT_PORT, World

Machine = TypeVar("Machine", bound=Client)
Make = Callable[[list[Address], Entropy], Machine]

SPIN_LIMIT = 2_000


class Process(Generic[Machine]):
    """The network's `Party` of a client.

    `breaks` counts connections that ended: while it stays the same, no request went unanswered. `turned` is called
    after every turn of the machine.
    """

    def __init__(self, world: World, name: str, make: Make[Machine], turned: Callable[[], None]) -> None:
        self.world = world
        self.name = name
        self.random = Random(world.random.getrandbits(64))
        self.mono_offset = self.random.randrange(1, 1_000_000)
        addresses = [(host.name, CLIENT_PORT) for host in world.hosts]
        self.random.shuffle(addresses)
        self.machine = make(addresses, self.random.randbytes)
        self.turned = turned
        self.alive = True
        self.paused = False
        self.breaks = 0
        self._ends: dict[int, End] = {}
        self._opening: set[int] = set()
        self._backlog: deque[Callable[[], None]] = deque()
        self._wake_at: int | None = None
        self._spins = 0
        self._spun_at = -1

    def __repr__(self) -> str:
        return f"<process {self.name}{' paused' if self.paused else ''}{'' if self.alive else ' over'}>"

    def now(self) -> Time:
        millis = self.world.micros // 1000
        return Time(self.mono_offset + millis, WALL_START + millis)

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Schedule an action of this process, in microseconds from now; while the process is paused, actions wait."""
        self.world.after(delay, lambda: None if self._postponed(action) else action())

    def later(self, bounds: tuple[int, int], action: Callable[[], None]) -> None:
        self.after(self.random.randint(*bounds), action)

    def note(self, what: str, detail: object = "") -> None:
        self.world.note(self.name, what, detail)

    # Pauses and the end.

    def pause(self, duration: int) -> None:
        """Stop the process unnoticed by its peers, then resume it with all queued inputs in order."""
        if self.alive and not self.paused:
            self.paused = True
            self.note("PAUSE", f"{duration / 1e6:.3f} s")
            self.world.after(duration, self.resume)

    def resume(self) -> None:
        self.paused = False
        while self._backlog and self.alive and not self.paused:
            self._backlog.popleft()()

    def kill(self) -> None:
        """End the process and its connections."""
        self.alive = False
        self.note("KILL")
        self._backlog.clear()
        self._ends.clear()
        self.world.network.leave(self, silent=False)

    def _postponed(self, action: Callable[[], None]) -> bool:
        """Whether the action waits because the process is paused, or is dropped because it is over."""
        if self.alive and self.paused:
            self._backlog.append(action)
        return self.paused or not self.alive

    # Effects.

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(connection, parts):
                    if connection in self._ends:
                        data = b"".join(parts)  # type: ignore[arg-type]  # clients do not send slices of files
                        self.world.network.send(self._ends[connection], data)
                case Connect(connection, host, port):
                    self._opening.add(connection)
                    self.world.network.connect(self, connection, host, port)
                case Close(connection):
                    self._close(connection)
                case _:
                    raise AssertionError(f"{self!r} cannot carry out {effect}")
        self.turned()
        self._plan_wake()

    def _close(self, connection: int) -> None:
        self.breaks += 1
        self._opening.discard(connection)
        end = self._ends.pop(connection, None)
        if end is not None:
            self.world.network.close(end)

    def _plan_wake(self) -> None:
        deadline = self.machine.next_deadline
        if deadline is None or (self._wake_at is not None and self._wake_at <= deadline):
            return
        self._wake_at = deadline
        due = (deadline - self.mono_offset) * 1000
        self.after(max(0, due - self.world.micros), partial(self._wake, deadline))

    def _wake(self, planned: int) -> None:
        if self._wake_at != planned:
            return
        self._wake_at = None
        deadline = self.machine.next_deadline
        if deadline is not None and deadline <= self.now().mono:
            self._count_spin()
            self.carry_out(self.machine.wake(self.now()))
        else:
            self._plan_wake()

    def _count_spin(self) -> None:
        """A machine that requests a wake-up at the same time again and again is broken."""
        moment = self.now().mono
        self._spins = self._spins + 1 if moment == self._spun_at else 0
        self._spun_at = moment
        assert self._spins < SPIN_LIMIT, f"{self.machine!r} of {self.name} requests wake-ups without end"

    # network.Party.

    def connected(self, end: End) -> None:
        if self._postponed(partial(self.connected, end)):
            if not self.alive:
                self.world.network.close(end)
            return
        if end.number not in self._opening:
            self.world.network.close(end)
            return
        self._opening.discard(end.number)
        self._ends[end.number] = end
        self.carry_out(self.machine.connected(end.number, self.now()))

    def connect_failed(self, number: int, reason: str) -> None:
        if not self._postponed(partial(self.connect_failed, number, reason)) and number in self._opening:
            self._opening.discard(number)
            self.breaks += 1
            self.carry_out(self.machine.connect_failed(number, reason, self.now()))

    def arrived(self, end: End, data: bytes) -> None:
        if self.paused and self._postponed(partial(self.arrived, end, data)):
            return
        if not self.alive or self._ends.get(end.number) is not end:
            return
        frames = end.reader.feed(data)
        if frames:
            self.carry_out(self.machine.received(end.number, frames, self.now()))

    def disconnected(self, end: End) -> None:
        if self._postponed(partial(self.disconnected, end)) or self._ends.get(end.number) is not end:
            return
        del self._ends[end.number]
        self.breaks += 1
        self.carry_out(self.machine.disconnected(end.number, self.now()))
