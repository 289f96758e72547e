"""AlterConfigs (33): options of topics, brokers and groups replaced."""

from tidelog.api.context import Context, Pending
from tidelog.api.topics.broker_options import hand_over_here
from tidelog.wire.messages.cluster.alter_configs import AlterConfigsRequest, AlterConfigsResponse


def handle(request: AlterConfigsRequest, context: Context) -> Pending | AlterConfigsResponse:
    answer: Pending | AlterConfigsResponse = hand_over_here(request, context)
    return answer
