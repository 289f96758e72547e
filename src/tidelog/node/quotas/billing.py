"""Requests of clients with quotas, from the moment they are served: what they cost is known with their answers."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tidelog.api.context import Bill, Quotas
from tidelog.effects import FileSlice, Part
from tidelog.node.connections import Connection, Ticket
from tidelog.node.quotas.muting import Muting


class Billing:
    """`throttled` counts the answers that said that their client is over its quota, by API key; `throttled_ms` how long
    these clients are not heard."""

    def __init__(self, quotas: Quotas, muting: Muting) -> None:
        self.throttled: Counter[int] = Counter()
        self.throttled_ms: Counter[int] = Counter()
        self._quotas = quotas
        self._muting = muting

    def __repr__(self) -> str:
        return f"<Billing {self._quotas}, {self.throttled.total()} throttled>"

    def open(self, connection: Connection, client_id: str | None, size: int) -> Bill:
        """A request of that many bytes is served now."""
        return Bill(user_of(connection.principal), client_id or "", size, self._quotas.stopwatch())

    def wait(self, bill: Bill) -> None:
        """The work is done, and its answer comes later."""
        if bill.spent_ns < 0:
            bill.spent_ns = self._quotas.stopwatch() - bill.started

    def answer(
        self, ticket: Ticket, bill: Bill, connection: Connection, response: Any, now: int
    ) -> Sequence[Part] | None:
        """The answer, which says for how long the client is over its quota; so long it is not heard."""
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
        response.throttle_time_ms = throttle_ms
        parts = ticket.encoded(response)
        response.throttle_time_ms = 0  # it may be one that every client is answered
        return parts

    def _charge(self, key: int, bill: Bill, parts: Sequence[Part], now: int) -> int:
        size = sum(part.length if isinstance(part, FileSlice) else len(part) for part in parts)
        return self._quotas.charge(
            bill.user, bill.client_id, key, size=bill.size, answer=size, spent_ns=bill.spent_ns, now=now
        )


def user_of(principal: str) -> str:
    """The name that quotas are set on: `alice` of `User:alice`."""
    return principal.partition(":")[2] or principal
