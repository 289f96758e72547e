"""AlterConfigs (33) and IncrementalAlterConfigs (44, KIP-339): options of topics, brokers, groups and loggers.

The first replaces all options of a resource; the second sets, deletes, appends and subtracts single ones. The options
of one broker are altered at that broker, as in Kafka; another broker refuses. Levels of loggers never leave it.
"""

from typing import Any

from tidelog.api.configs.loggers import alter_levels, concern_loggers
from tidelog.api.context import Context, Pending
from tidelog.api.to_controller import submit
from tidelog.config.alter import BROKER
from tidelog.errors import ErrorCode
from tidelog.wire.messages.configs.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from tidelog.wire.messages.configs.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.refusals import refuse

AlterRequest = AlterConfigsRequest | IncrementalAlterConfigsRequest


def alter_configs(request: AlterConfigsRequest, context: Context) -> Pending | AlterConfigsResponse:
    answer: Pending | AlterConfigsResponse = _hand_over(request, context)
    return answer


def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> Pending | IncrementalAlterConfigsResponse:
    if concern_loggers(request):
        return alter_levels(request, context)
    answer: Pending | IncrementalAlterConfigsResponse = _hand_over(request, context)
    return answer


def _hand_over(request: AlterRequest, context: Context) -> Any:
    """Hand the request to the controller; INVALID_REQUEST where it is for another broker."""
    if _is_for_another_broker(request, context):
        return refuse(request, ErrorCode.INVALID_REQUEST, f"This is broker {context.broker.broker_id}.")
    return submit(request, context)


def _is_for_another_broker(request: AlterRequest, context: Context) -> bool:
    """Whether a client requests only options of other brokers."""
    own = str(context.broker.broker_id)
    return (
        bool(request.resources)
        and context.listener != context.broker.inter_broker_listener
        and all(
            resource.resource_type == BROKER and resource.resource_name.isdecimal() and resource.resource_name != own
            for resource in request.resources
        )
    )
