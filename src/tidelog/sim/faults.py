"""What may go wrong in a run: pace and chances, drawn per seed, so that each seed lives in a world of its own.

All delays are in microseconds.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.sim.network import Weather

MILLI = 1_000
SECOND = 1_000_000

POWER = "power"
KILL = "kill"
REFUSE = "refuse"
GO_ON = "go on"
"""What a disk operation comes to."""


@dataclass(slots=True)
class Faults:
    """`store_lost`: the chance that the answer to a store operation is lost (`unknown`)."""

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
        """The faults are over: the liveness phase begins."""
        self.weather.tail_chance = self.weather.cut_chance = 0.0
        self.store_lost = 0.0


@dataclass(slots=True)
class Fault:
    """Refuse operations of a kind ("write", "sync", "read", "rename", …, "*") at paths that hold `text`.

    `after`: how many pass first; `times`: how many are refused, -1 for all. `torn`: a refused write has stored a part.
    `verdict` is asked at the moment: REFUSE, GO_ON, or what the process ends by within the operation (POWER, KILL).
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
