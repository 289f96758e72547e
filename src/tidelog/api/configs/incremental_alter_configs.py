"""IncrementalAlterConfigs (44): options of topics, brokers, groups and loggers set, deleted, appended to (KIP-339)."""

from tidelog.api.configs.broker_options import hand_over_here
from tidelog.api.configs.loggers import alter_levels, concern_loggers
from tidelog.api.context import Context, Pending
from tidelog.wire.messages.configs.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(request: IncrementalAlterConfigsRequest, context: Context) -> Pending | IncrementalAlterConfigsResponse:
    if concern_loggers(request):
        return alter_levels(request, context)
    answer: Pending | IncrementalAlterConfigsResponse = hand_over_here(request, context)
    return answer
