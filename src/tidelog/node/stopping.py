"""Stopping on purpose: the controller moves the leaders away first (controlled shutdown), a few times at most."""

from typing import ClassVar

from tidelog.alarms import Alarm
from tidelog.effects import CONTROLLER, Effect, Event, PeerRequest, Stop
from tidelog.model import Time
from tidelog.wire.messages.cluster.brokers import ControlledShutdownRequest, ControlledShutdownResponse

ATTEMPTS = 3
ANSWER_WITHIN_MS = 5_000
RETRY_MS = 500


class Stopping:
    """Nothing until `begin`; then requests until no leadership is left or the attempts are used up; then `Stop`."""

    OWNER: ClassVar[str] = "shutdown"

    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
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
            self._stop_next_turn(now)
            return
        if response is not None and response.remaining_partitions:
            left = len(response.remaining_partitions)
            self._effects.append(Event("shutdown.leaders_left", {"partitions": left}))
        self.alarm.set(now.mono + RETRY_MS)

    def wake(self, now: Time) -> None:
        if self.done:
            self.alarm.set(None)
            self._effects.append(Stop())
        elif self._attempts > 0:
            self._send_request(now)
        else:
            self._stop_next_turn(now)

    def _stop_next_turn(self, now: Time) -> None:
        """Stop at the next turn: the requests and answers of this one are sent before the logs are closed."""
        self.done = True
        self.alarm.set(now.mono)
