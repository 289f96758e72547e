"""Stopping on purpose: the controller moves the leaders away first (controlled shutdown), a few times at most.

With a metadata quorum the broker then ends its session by a record, so that nobody has to find out that it is gone, and
leaves the quorum's office if it has it.
"""

from typing import ClassVar, Protocol

from tidelog.alarms import Alarm
from tidelog.effects import CONTROLLER, Effect, Event, PeerRequest, Stop
from tidelog.model import Time
from tidelog.wire.messages.cluster.brokers import ControlledShutdownRequest, ControlledShutdownResponse

ATTEMPTS = 3
ANSWER_WITHIN_MS = 5_000
RETRY_MS = 500
LEAVE_WITHIN_MS = 500
"""How long the end of the session may take: the last brokers of a cluster that stops are no majority any more."""


class Leaves(Protocol):
    """This node's part of the metadata quorum."""

    def leave(self, now: Time) -> bool:
        """Whether the end of the session is on its way."""

    def resign(self, now: Time) -> None: ...


class Stopping:
    """Nothing until `begin`; then requests until no leadership is left or the attempts are used up; then the end of the
    session in the metadata quorum, which is reported by `left`; then `Stop`."""

    OWNER: ClassVar[str] = "shutdown"

    def __init__(self, effects: list[Effect], quorum: Leaves | None = None) -> None:
        self._effects = effects
        self._quorum = quorum
        self.is_leaving = False
        self._attempts = ATTEMPTS
        self._request: ControlledShutdownRequest | None = None
        self.alarm = Alarm()
        self.done = False

    def __repr__(self) -> str:
        return f"<Stopping done={self.done}, {self._attempts} attempts left>"

    def begin(self, broker_id: int, broker_epoch: int, now: Time) -> None:
        if self._request is not None:
            return
        self._request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch)
        if broker_epoch >= 0:
            self._send_request(now)
        else:
            self._stop_next_turn(now)

    def _send_request(self, now: Time) -> None:
        self.alarm.set(now.mono + ANSWER_WITHIN_MS)
        self._attempts -= 1
        self._effects.append(PeerRequest(CONTROLLER, self._request, self.OWNER, 0))

    def answered(self, response: ControlledShutdownResponse | None, now: Time) -> None:
        if self.done or self._request is None:
            return
        if response is not None and not response.error_code and not response.remaining_partitions:
            self._leave(now)
            return
        if response is not None and response.remaining_partitions:
            left = len(response.remaining_partitions)
            self._effects.append(Event("shutdown.leaders_left", {"partitions": left}))
        self.alarm.set(now.mono + RETRY_MS)

    def _leave(self, now: Time) -> None:
        if self.is_leaving:
            return
        self.is_leaving = self._quorum is not None and self._quorum.leave(now)
        if self.is_leaving:
            self.alarm.set(now.mono + LEAVE_WITHIN_MS)
        else:
            self._stop_next_turn(now)

    def left(self, now: Time) -> None:
        """The session is over."""
        if self.is_leaving and not self.done:
            assert self._quorum is not None
            self._quorum.resign(now)
            self._stop_next_turn(now)

    def wake(self, now: Time) -> None:
        if self.done:
            self.alarm.set(None)
            self._effects.append(Stop())
        elif self._attempts > 0 and not self.is_leaving:
            self._send_request(now)
        else:
            self._stop_next_turn(now)

    def _stop_next_turn(self, now: Time) -> None:
        """Stop at the next turn: the requests and answers of this one are sent before the logs are closed."""
        self.done = True
        self.alarm.set(now.mono)
