"""UnregisterBroker (64): a dead broker will not come back."""

from tidelog.api.cluster.to_controller import submit
from tidelog.api.context import Context, Pending
from tidelog.wire.messages.cluster.unregister_broker import UnregisterBrokerRequest


def handle(request: UnregisterBrokerRequest, context: Context) -> Pending:
    return submit(request, context)
