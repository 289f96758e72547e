"""AlterConfigs (33): options of topics and brokers replaced."""

from tidelog.api.cluster.hand_over import hand_over
from tidelog.api.context import Context, Handed
from tidelog.wire.messages.cluster.alter_configs import AlterConfigsRequest


def handle(request: AlterConfigsRequest, context: Context) -> Handed:
    return hand_over(request, context)
