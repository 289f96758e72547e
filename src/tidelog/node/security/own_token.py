"""The access token with which a broker logs in to others by OAUTHBEARER, and when the next one is fetched.

The first one is fetched before the broker starts, each further one after `oauthbearer.USED_FOR` of the lifetime of the
one before. So there is a new one before a channel must log in again (`peers.REAUTHENTICATED_AT` of what was left at its
login). If that fails, or brings no newer token, the broker keeps the one that it has and tries again.
"""

from tidelog.alarms import Alarm
from tidelog.effects import Effect, Event, FetchToken
from tidelog.model import Time
from tidelog.security import oauthbearer

LEAST_MS, RETRY_MAX_MS = 1_000, 10_000
_MOST_DOUBLINGS = 4


class OwnToken:
    """`text` is the token; "" where brokers log in otherwise."""

    def __init__(self, text: str, effects: list[Effect]) -> None:
        self.text = text
        self._effects = effects
        self._failures = 0
        self.next_deadline: int | None = None
        """When the next token is fetched; None while it is."""
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<OwnToken of {len(self.text)} characters, next at {self.next_deadline}>"

    def start(self, now: Time) -> None:
        if self.text:
            left_ms = oauthbearer.expires_at(self.text) - now.wall
            self._set(now.mono + max(LEAST_MS, int(left_ms * oauthbearer.USED_FOR)))

    def wake(self, now: Time) -> None:  # noqa: ARG002 (the alarm is due)
        self._set(None)
        self._effects.append(FetchToken())

    def fetched(self, text: str, problem: str, now: Time) -> None:
        """The answer to FetchToken: a token, or why there is none."""
        if problem:
            self._effects.append(Event("token.not_fetched", {"reason": problem}, level="error"))
            backoff_ms = LEAST_MS << min(self._failures, _MOST_DOUBLINGS)
            self._failures += 1
            self._set(now.mono + min(backoff_ms, RETRY_MAX_MS))
        else:
            self.text, self._failures = text, 0
            self.start(now)

    def _set(self, moment: int | None) -> None:
        self.next_deadline = moment
        self.alarm.set(moment)
