"""AlterConfigs (33): options of topics, brokers and groups replaced."""

from tidelog.api.configs.broker_options import hand_over_here
from tidelog.api.context import Context, Pending
from tidelog.wire.messages.configs.alter_configs import AlterConfigsRequest, AlterConfigsResponse


def handle(request: AlterConfigsRequest, context: Context) -> Pending | AlterConfigsResponse:
    answer: Pending | AlterConfigsResponse = hand_over_here(request, context)
    return answer
