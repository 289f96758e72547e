"""One broker's machine: what outlives the processes that run on it, and how they begin and end."""

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from tidelog.model import Endpoint, Time
from tidelog.sim.disk import SimDisk
from tidelog.sim.life import Broker, Life

if TYPE_CHECKING:
    from tidelog.sim.world import World

WALL_START = 1_700_000_000_000


class Host:
    """`life` is the running process, or None. Each machine has its own boot clock and may have a wrong wall clock."""

    def __init__(self, world: "World", broker_id: int, endpoints: Sequence[Endpoint], disk: SimDisk) -> None:
        self.world = world
        self.broker_id = broker_id
        self.name = f"broker-{broker_id}"
        self.endpoints = tuple(endpoints)
        self.disk = disk
        self.random = Random(world.random.getrandbits(64))
        self.mono_offset = self.random.randrange(1, 1_000_000)
        self.wall_offset = 0
        self.life: Life | None = None
        self.lives = 0
        self.stopped_because: str | None = None

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
        return Time(self.mono_offset + millis, WALL_START + self.wall_offset + millis)

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
            life.end()
            self.world.network.leave(life, silent=silent)
