"""Faults and delays of a run, drawn per seed, so that each seed has its own world. All delays are in microseconds."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.sim.network import Weather

MILLI = 1_000
SECOND = 1_000_000

POWER = "power"
KILL = "kill"
REFUSE = "refuse"
GO_ON = "go on"
"""The outcome of a disk operation."""


@dataclass(slots=True)
class Faults:
    """`store_lost` is the probability that the response to a store operation is lost (`unknown`)."""

    weather: Weather = field(default_factory=Weather)
    sync_delay: tuple[int, int] = (100, 5 * MILLI)
    examine_delay: tuple[int, int] = (20, 2 * MILLI)
    store_delay: tuple[int, int] = (100, 3 * MILLI)
    store_lost: float = 0.0
    store_lost_delay: tuple[int, int] = (10 * MILLI, 500 * MILLI)
    event_delay: tuple[int, int] = (100, 5 * MILLI)
    expiry_notice: tuple[int, int] = (1 * MILLI, 2 * SECOND)
    session_term: int = 9 * SECOND

    def calm(self) -> None:
        """End the faults: the liveness phase begins."""
        self.weather.tail_chance = self.weather.cut_chance = 0.0
        self.store_lost = 0.0


@dataclass(slots=True)
class Fault:
    """Refuse operations of a kind ("write", "sync", "read", "rename", …, "*") on paths that contain `text`.

    `after`: how many pass first; `times`: how many are refused, -1 for all. `torn`: a refused write has stored a part.
    `verdict` is called at that moment: REFUSE, GO_ON, or what the process ends by within the operation (POWER, KILL).
    """

    operation: str
    text: str = ""
    reason: str = "EIO"
    after: int = 0
    times: int = -1
    torn: bool = False
    verdict: Callable[[], str] | None = None

    def strikes(self, operation: str, path: str) -> bool:
        if self.operation not in ("*", operation) or self.text not in path or self.times == 0:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= self.times > 0
        return True

    @property
    def decides(self) -> str:
        return REFUSE if self.verdict is None else self.verdict()
