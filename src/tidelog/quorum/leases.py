"""How long each session lasts without a heartbeat, on the monotonic clock of the quorum's leader.

Leases are in the leader's memory only: a new leader grants everyone a full term. A session is ended by a record of the
log; what is here only says that it is time for one.
"""

from collections.abc import Iterable

STALLED_PART = 4
"""A wake-up that is late by more than this part of the term means that the leader itself stood still."""


class Leases:
    """The sessions' deadlines in milliseconds. All terms are equal, so the one renewed longest ago ends first."""

    def __init__(self, term_ms: int) -> None:
        self.term_ms = term_ms
        self._deadlines: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"Leases({len(self._deadlines)} sessions, {self.term_ms} ms)"

    def __contains__(self, session: int) -> bool:
        return session in self._deadlines

    @property
    def deadline(self) -> int | None:
        """When the first lease ends; the leader must call `over` then."""
        return next(iter(self._deadlines.values()), None)

    def start(self, sessions: Iterable[int], now: int) -> None:
        """Grant a full term to these sessions, and to no others: the leader is new, or stood still."""
        self._deadlines = dict.fromkeys(sessions, now + self.term_ms)

    def grant(self, session: int, now: int) -> None:
        """A session was opened."""
        self._deadlines.pop(session, None)
        self._deadlines[session] = now + self.term_ms

    def renew(self, session: int, now: int) -> bool:
        """A heartbeat of the session arrived; False if it is over, and its end on the way to the log."""
        if session not in self._deadlines:
            return False
        self.grant(session, now)
        return True

    def drop(self, session: int) -> None:
        """The session ends for another reason."""
        self._deadlines.pop(session, None)

    def over(self, now: int) -> list[int]:
        """The sessions whose lease is over; they are forgotten, so that each is ended once. After the leader stood
        still, heartbeats may wait to be read: then all get a new term."""
        first = self.deadline
        if first is None or now < first:
            return []
        if now - first > self.term_ms // STALLED_PART:
            self.start(list(self._deadlines), now)
            return []
        ended = [session for session, deadline in self._deadlines.items() if deadline <= now]
        for session in ended:
            del self._deadlines[session]
        return ended
