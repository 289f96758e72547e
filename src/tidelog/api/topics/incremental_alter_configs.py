"""IncrementalAlterConfigs (44): options of topics and brokers set, deleted, appended to (KIP-339)."""

from tidelog.api.cluster.hand_over import hand_over
from tidelog.api.context import Context, Handed
from tidelog.api.topics.broker_options import is_for_another_broker
from tidelog.api.topics.loggers import alter_levels, concern_loggers
from tidelog.controller.refusals import refuse
from tidelog.errors import ErrorCode
from tidelog.wire.messages.cluster.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(request: IncrementalAlterConfigsRequest, context: Context) -> Handed | IncrementalAlterConfigsResponse:
    if concern_loggers(request):
        return alter_levels(request, context)
    if is_for_another_broker(request, context):
        message = f"This is broker {context.broker.broker_id}."
        refusal: IncrementalAlterConfigsResponse = refuse(request, ErrorCode.INVALID_REQUEST, message)
        return refusal
    return hand_over(request, context)
