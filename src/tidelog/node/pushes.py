"""Which pushes of controllers this broker takes: LeaderAndIsr, StopReplica and UpdateMetadata.

A push may arrive long after its sender gave it up, on a connection that is none any more, behind what was sent after
it. So a controller numbers its pushes, and what is older than what was taken is refused: whoever sent it has told it
again since, or knows better. A number that no controller sent, higher than all, makes this broker refuse the rest of
the term: the controller hears so, and begins the next one with a higher epoch. And a new controller is one once the
store tells of its epoch: else one frame with a high epoch would make this broker deaf to every controller to come. From
then on those before it are refused, also where nothing of the new one has come yet.
"""

from tidelog.api.context import Push
from tidelog.controller import tree
from tidelog.controller.controller import Controller
from tidelog.errors import ErrorCode
from tidelog.node.membership import Submit
from tidelog.ports import Node, Read, StoreResult

UNNUMBERED = -1


class PushOrder:
    """`confirmed` is the highest controller epoch that the store is known to have told of."""

    def __init__(self, submit: Submit, controller: Controller) -> None:
        self._submit = submit
        self._controller = controller
        self._taken = (1, UNNUMBERED)
        self._asking = False
        self.confirmed = 0

    def __repr__(self) -> str:
        return f"<PushOrder: {self._taken} taken, epoch {self.confirmed} confirmed>"

    def is_overtaken(self, push: Push) -> bool:
        """Whether a newer one was taken, or the store has told of a newer controller."""
        self.confirmed = max(self.confirmed, self._controller.known_epoch)
        return (push.controller_epoch, push.push_number) < max(self._taken, (self.confirmed, UNNUMBERED))

    def take(self, push: Push) -> ErrorCode:
        """NONE where the push is to be carried out; what comes after it must be newer."""
        place = (push.controller_epoch, push.push_number)
        if self.is_overtaken(push) or (place == self._taken and push.push_number != UNNUMBERED):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if push.controller_epoch > self.confirmed:
            self._ask()
            return ErrorCode.UNKNOWN_CONTROLLER_ID
        self._taken = place
        return ErrorCode.NONE

    def _ask(self) -> None:
        """One question at a time. Nobody waits for its answer: a controller sends again what was refused."""
        if not self._asking:
            self._asking = True
            self._submit([Read(tree.CONTROLLER_EPOCH)], self._told)

    def _told(self, result: StoreResult) -> None:
        self._asking = False
        node = result.values[0] if result.outcome == "ok" else None
        if isinstance(node, Node):
            self.confirmed = max(self.confirmed, tree.parse_controller_epoch(node.data))
