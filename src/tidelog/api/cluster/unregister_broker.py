"""UnregisterBroker (64): a dead broker will not come back."""

from tidelog.api.cluster.hand_over import hand_over
from tidelog.api.context import Context, Handed
from tidelog.wire.messages.cluster.unregister_broker import UnregisterBrokerRequest


def handle(request: UnregisterBrokerRequest, context: Context) -> Handed:
    return hand_over(request, context)
