"""The seam between a broker and time: a clock that can be stopped and moved on."""

from tidelog.model import Time
from tidelog.shell.connections.traffic import clock


class VirtualClock:
    """Runs as the machine's clocks do until it is stopped. It never goes back."""

    def __init__(self) -> None:
        self._state: tuple[int, Time | None] = (0, None)
        """How far it is ahead of the machine's clocks, in milliseconds, and where those stood when it was stopped."""

    def __repr__(self) -> str:
        return f"VirtualClock({self._state[0]} ms ahead{', stopped' if self.is_stopped else ''})"

    @property
    def is_stopped(self) -> bool:
        return self._state[1] is not None

    @property
    def is_moved(self) -> bool:
        """Whether it differs from the machine's clocks."""
        return self._state != (0, None)

    def now(self) -> Time:
        ahead_ms, stopped_at = self._state
        mono, wall = stopped_at or clock()
        return Time(mono + ahead_ms, wall + ahead_ms)

    def advance(self, ms: int) -> None:
        ahead_ms, stopped_at = self._state
        self._state = (ahead_ms + ms, stopped_at)

    def stop(self) -> None:
        ahead_ms, stopped_at = self._state
        self._state = (ahead_ms, stopped_at or clock())

    def start(self) -> None:
        """Go on from where it was stopped."""
        ahead_ms, stopped_at = self._state
        if stopped_at is not None:
            self._state = (ahead_ms - (clock().mono - stopped_at.mono), None)
