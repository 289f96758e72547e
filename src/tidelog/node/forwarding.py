"""Requests that only the controller answers, passed on to it from whichever broker a client asked."""

from typing import Any, NamedTuple

from tidelog.alarms import Alarm
from tidelog.api.context import PENDING, Context, Pending
from tidelog.controller.refusals import not_controller
from tidelog.effects import CONTROLLER, Ask, Close, Effect, Reply
from tidelog.model import Time

OWNER = "forward"
RETRY_MS = 50
PATIENCE_MS = 30_000


class Forwarded(NamedTuple):
    request: Any
    version: int
    connection: int
    deadline: int


class Forwarding:
    """Keeps a forwarded request until it is answered; asks again while no controller answers, or a deposed one."""

    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._pending: dict[int, Forwarded] = {}
        self._again: dict[int, int] = {}
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<Forwarding {len(self._pending)} requests, {len(self._again)} again>"

    def forward(self, context: Context, request: Any) -> Pending:
        deadline = context.now.mono + PATIENCE_MS
        self._pending[context.token] = Forwarded(request, context.version, context.connection, deadline)
        self._ask(context.token)
        return PENDING

    def _ask(self, token: int) -> None:
        self._effects.append(Ask(CONTROLLER, self._pending[token].request, OWNER, token))

    def version(self, token: int) -> int:
        """A forwarded request keeps the version in which the client asked."""
        return self._pending[token].version

    def answered(self, token: int, response: Any, now: Time) -> None:
        forwarded = self._pending.get(token)
        if forwarded is None:
            return
        if (response is None or not_controller(response)) and now.mono < forwarded.deadline:
            self._again[token] = now.mono + RETRY_MS
            self.alarm.set(self.next_deadline)
            return
        del self._pending[token]
        if response is None:
            self._effects.append(Close(forwarded.connection, "no controller answered in time"))
        else:
            self._effects.append(Reply(token, response))

    def wake(self, now: Time) -> None:
        for token in [token for token, moment in self._again.items() if moment <= now.mono]:
            del self._again[token]
            self._ask(token)
        self.alarm.set(self.next_deadline)

    @property
    def next_deadline(self) -> int | None:
        return min(self._again.values()) if self._again else None
