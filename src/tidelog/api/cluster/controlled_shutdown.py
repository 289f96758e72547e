"""ControlledShutdown (7), inter-broker: a broker asks the controller to move its leaders away before it stops."""

from tidelog.api.cluster.to_controller import submit
from tidelog.api.context import Context, Pending
from tidelog.wire.messages.cluster.controlled_shutdown import ControlledShutdownRequest


def handle(request: ControlledShutdownRequest, context: Context) -> Pending:
    return submit(request, context)
