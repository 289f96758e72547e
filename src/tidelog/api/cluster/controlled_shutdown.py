"""ControlledShutdown (7), inter-broker: a broker asks the controller to move its leaders away before it stops."""

from tidelog.api.cluster.hand_over import hand_over
from tidelog.api.context import Context, Handed
from tidelog.wire.messages.cluster.controlled_shutdown import ControlledShutdownRequest


def handle(request: ControlledShutdownRequest, context: Context) -> Handed:
    return hand_over(request, context)
