"""What may go wrong in a run: pace and chances, drawn per seed, so that each seed lives in a world of its own.

All delays are in microseconds.
"""

from dataclasses import dataclass, field

from tidelog.sim.network import Weather

MILLI = 1_000
SECOND = 1_000_000


@dataclass(slots=True)
class Faults:
    """`store_lost`: the chance that the answer to a store operation is lost (`unknown`)."""

    weather: Weather = field(default_factory=Weather)
    sync_delay: tuple[int, int] = (100, 5 * MILLI)
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
