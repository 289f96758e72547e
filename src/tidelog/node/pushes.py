"""Which pushes of controllers this broker takes: LeaderAndIsr, StopReplica and UpdateMetadata.

A push may arrive long after its sender gave it up, on a connection that is none any more, behind what was sent after
it. So a controller numbers its pushes, and what is older than what was taken is refused: whoever sent it has told it
again since, or knows better.
"""

from tidelog.api.context import Push
from tidelog.errors import ErrorCode

UNNUMBERED = -1


class PushOrder:
    def __init__(self) -> None:
        self._taken = (0, UNNUMBERED)

    def __repr__(self) -> str:
        return f"<PushOrder: {self._taken} taken>"

    def is_overtaken(self, push: Push) -> bool:
        """Whether a newer one was taken."""
        return (push.controller_epoch, push.push_number) < self._taken

    def take(self, push: Push) -> ErrorCode:
        """NONE where the push is to be carried out; what comes after it must be newer."""
        place = (push.controller_epoch, push.push_number)
        if place < self._taken or (place == self._taken and push.push_number != UNNUMBERED):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self._taken = place
        return ErrorCode.NONE
