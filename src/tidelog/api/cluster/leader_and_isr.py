"""LeaderAndIsr (4), inter-broker: the controller says which replicas this broker leads and follows."""

from tidelog.api.context import Context, Pending
from tidelog.wire.messages.cluster.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


def handle(request: LeaderAndIsrRequest, context: Context) -> LeaderAndIsrResponse | Pending:
    code = context.broker.check_controller(request)
    if code:
        return LeaderAndIsrResponse(error_code=code)
    return context.broker.take_assignments(request, context)
