"""One broker's machine: what outlives the processes that run on it, and how they begin and end."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tidelog.model import Endpoint, Time
from tidelog.sim.disk import SimDisk
from tidelog.sim.life import Broker, Life

if TYPE_CHECKING:
    from tidelog.sim.world import World

WALL_START = 1_700_000_000_000


@dataclass(slots=True)
class Busy:
    """An input that will take so long, in microseconds; so many others come first."""

    duration: int
    skips: int


@dataclass(slots=True)
class Trouble:
    """What makes a machine worse than its world for a while. `sync_factor`: how much slower its disk syncs; `busy`: its
    process will do nothing else for a while; `silent_until`: the store is not heard of before, though the session goes
    on; the others replace what the faults of the world say."""

    sync_factor: int = 1
    busy: Busy | None = None
    silent_until: int = 0
    store_delay: tuple[int, int] | None = None
    store_lost: float | None = None


class Host:
    """`life` is the running process, or None. Each machine has its own boot clock and may have a wrong wall clock,
    which jumps, and gains or loses `drift` milliseconds in a second."""

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
        """Whether the last life was in a wished stop when it ended, however that was."""

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
        """From now on; the clock itself does not jump."""
        millis = self.world.micros // 1000
        self.wall_offset += millis * self.drift // 1000 - millis * drift // 1000
        self.drift = drift

    @property
    def silence(self) -> int:
        """How much longer the store is not heard of, in microseconds."""
        return max(0, self.trouble.silent_until - self.world.micros)

    def mend(self) -> None:
        """Disk and store are as good as the world's again."""
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
        """The process is gone; what becomes of the disk and of the session is the caller's to say."""
        life = self.life
        if life is not None:
            self.life = None
            self.was_stopping = life.stopping
            life.end()
            self.world.network.leave(life, silent=silent)
