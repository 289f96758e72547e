"""How long each session lasts without a heartbeat, on the monotonic clock of the quorum's leader.

Leases are in the leader's memory only: a new leader grants everyone a full term. A session is ended by a record of the
log; what is here only says that it is time for one.
"""

from collections.abc import Iterable
from itertools import islice

STALLED_PART = 4
"""A wake-up that is late by more than this part of the term means that the leader itself stood still."""


class Leases:
    """The sessions' deadlines in milliseconds. All terms are equal, so the one renewed longest ago ends first."""

    def __init__(self, term_ms: int) -> None:
        self.term_ms = term_ms
        self._deadlines: dict[int, int] = {}
        self._ending: dict[int, int] = {}
        """Sessions whose end is on the way to the log, and when to append it again if it did not get there."""

    def __repr__(self) -> str:
        return f"Leases({len(self._deadlines)} sessions, {len(self._ending)} ending, {self.term_ms} ms)"

    def __contains__(self, session: int) -> bool:
        return session in self._deadlines

    @property
    def deadline(self) -> int | None:
        """When the leader must call `over`: the first lease ends, or an end did not get to the log."""
        return min([*islice(self._deadlines.values(), 1), *islice(self._ending.values(), 1)], default=None)

    def start(self, sessions: Iterable[int], now: int) -> None:
        """Grant a full term to these sessions, and to no others: the leader is new, or stood still."""
        self._deadlines = dict.fromkeys(sessions, now + self.term_ms)
        self._ending = {}

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

    def end(self, session: int, now: int) -> None:
        """The session's end is being appended: its lease is over, for whatever reason."""
        self._deadlines.pop(session, None)
        self._ending.pop(session, None)
        self._ending[session] = now + self.term_ms // STALLED_PART

    def drop(self, session: int) -> None:
        """The session has ended, according to the log."""
        self._deadlines.pop(session, None)
        self._ending.pop(session, None)

    def over(self, now: int) -> list[int]:
        """The sessions whose end must be appended now. Each is reported again, a quarter of a term later, unless it was
        dropped: the record may not have got to the log. After the leader stood still, heartbeats may wait to be read:
        then all get a new term."""
        first = next(iter(self._deadlines.values()), None)
        ended = [session for session, again in self._ending.items() if again <= now]
        if first is not None and now - first > self.term_ms // STALLED_PART:
            self._deadlines = dict.fromkeys(self._deadlines, now + self.term_ms)
        else:
            ended += [session for session, deadline in self._deadlines.items() if deadline <= now]
        for session in ended:
            self.end(session, now)
        return ended
