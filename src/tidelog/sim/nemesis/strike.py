"""One fault that happens now: its number, dice of its own, and what kinds need to choose a victim and to come back."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tidelog.sim.faults import SECOND
from tidelog.sim.host import Host

if TYPE_CHECKING:
    from tidelog.sim.nemesis.atlas import Atlas
    from tidelog.sim.nemesis.moments import Moment
    from tidelog.sim.nemesis.schedule import Nemesis
    from tidelog.sim.world import World


@dataclass(slots=True)
class Strike:
    nemesis: "Nemesis"
    number: int
    kind: str
    random: Random

    @property
    def world(self) -> "World":
        return self.nemesis.world

    @property
    def atlas(self) -> "Atlas":
        return self.nemesis.atlas

    def running(self) -> Host | None:
        """Some broker whose process runs and is not paused."""
        up = [host for host in self.world.hosts if host.running]
        return self.random.choice(up) if up else None

    def losable(self) -> Host | None:
        """Some running broker, if its unsynced data may go."""
        host = self.running()
        return host if host is not None and self.atlas.may_lose(host) else None

    def pair(self) -> tuple[Host, Host]:
        one, other = self.random.sample(self.world.hosts, 2)
        return one, other

    def later(self, delay: int, action: Callable[[], None]) -> None:
        self.world.after(delay, action)

    def drawn(self, *choices: int) -> int:
        """Somewhere below one of these, in microseconds."""
        most = self.random.choice(choices)
        return self.random.randint(most // 2, most)

    def arm(self, moment: "Moment", lasts: int = 10 * SECOND) -> None:
        """Wait for a moment, not for ever."""
        self.nemesis.armed.append(moment)
        self.later(lasts, partial(self.nemesis.disarm, moment))


Kind = Callable[[Strike], None]


def same_life(host: Host) -> Callable[[], bool]:
    """Whether the process that runs now still does, and is not paused."""
    life = host.lives
    return lambda: host.running and host.lives == life
