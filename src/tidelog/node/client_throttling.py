"""Requests of clients with quotas: what they cost is known with their answers, which report the throttle time.

For that time nothing is read from the connection (KIP-219).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tidelog.alarms import Alarm
from tidelog.api.context import Bill, Quotas
from tidelog.effects import Effect, FileSlice, Part, Pause
from tidelog.model import Time
from tidelog.node.connections import Connection, Ticket

LONGEST_ID = 255
"""Characters of a client id that count. It is remembered, and a client may choose another one of 32 KiB each time."""


class Muting:
    """A connection that is also paused for another reason stays paused when its time is up."""

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


class Billing:
    """`throttled` counts the throttled answers by API key, `throttled_ms` the throttle times that they reported."""

    def __init__(self, quotas: Quotas, muting: Muting) -> None:
        self.throttled: Counter[int] = Counter()
        self.throttled_ms: Counter[int] = Counter()
        self._quotas = quotas
        self._muting = muting

    def __repr__(self) -> str:
        return f"<Billing {self._quotas}, {self.throttled.total()} throttled>"

    def open(self, connection: Connection, client_id: str | None, size: int) -> Bill:
        """A request of that many bytes is served now."""
        client = (client_id or "")[:LONGEST_ID]
        return Bill(user_of(connection.principal), client, size, self._quotas.stopwatch())

    def wait(self, bill: Bill) -> None:
        """The work is done; its answer comes later."""
        if bill.spent_ns < 0:
            bill.spent_ns = self._quotas.stopwatch() - bill.started

    def answer(
        self, ticket: Ticket, bill: Bill, connection: Connection, response: Any, now: int
    ) -> Sequence[Part] | None:
        """The answer with its throttle time, for which the connection is muted."""
        if bill.finish is not None:
            bill.finish(response)
        parts = ticket.encoded(response)
        self.wait(bill)
        throttle_ms = max(self._charge(ticket.key, bill, parts or (), now), bill.throttle_ms)
        if throttle_ms <= 0:
            return parts
        self.throttled[ticket.key] += 1
        self.throttled_ms[ticket.key] += throttle_ms
        self._muting.mute(connection, now + throttle_ms)
        if not hasattr(response, "throttle_time_ms"):
            return parts
        response.throttle_time_ms, ticket.parts = throttle_ms, None
        parts = ticket.encoded(response)
        response.throttle_time_ms = 0  # it may be one that every client is answered
        return parts

    def _charge(self, key: int, bill: Bill, parts: Sequence[Part], now: int) -> int:
        size = sum(part.length if isinstance(part, FileSlice) else len(part) for part in parts)
        return self._quotas.record_request(
            bill.user, bill.client_id, key, size=bill.size, answer=size, spent_ns=bill.spent_ns, now=now
        )


def user_of(principal: str) -> str:
    """The name that quotas are set on: `alice` of `User:alice`."""
    return principal.partition(":")[2] or principal
