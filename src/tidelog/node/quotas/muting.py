"""Connections that are not read from for a while, because their clients are over a quota (KIP-219)."""

from tidelog.alarms import Alarm
from tidelog.effects import Effect, Pause
from tidelog.model import Time
from tidelog.node.connections import Connection


class Muting:
    """A connection that stands still for another reason, too, stays so when its time is up."""

    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._until: dict[Connection, int] = {}
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<Muting {len(self._until)} connections>"

    def __contains__(self, connection: Connection) -> bool:
        return bool(self._until) and connection in self._until

    def mute(self, connection: Connection, until: int) -> None:
        """Read nothing from it until that monotonic millisecond."""
        if connection not in self._until and not connection.paused:
            self._effects.append(Pause(connection.number, paused=True))
        self._until[connection] = max(until, self._until.get(connection, 0))
        self.alarm.set(self.next_deadline)

    def forget(self, connection: Connection) -> None:
        if self._until.pop(connection, None) is not None:
            self.alarm.set(self.next_deadline)

    def wake(self, now: Time) -> None:
        for connection in [each for each, until in self._until.items() if until <= now.mono]:
            del self._until[connection]
            if not connection.paused:
                self._effects.append(Pause(connection.number, paused=False))
        self.alarm.set(self.next_deadline)

    @property
    def next_deadline(self) -> int | None:
        return min(self._until.values()) if self._until else None
