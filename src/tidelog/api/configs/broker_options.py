"""Options of one broker are altered at that broker, as Kafka wants it; a client that asks another one is told so."""

from typing import Any

from tidelog.api.cluster.to_controller import submit
from tidelog.api.context import Context
from tidelog.config.alter import BROKER
from tidelog.controller.refusals import refuse
from tidelog.errors import ErrorCode
from tidelog.wire.messages.configs.alter_configs import AlterConfigsRequest
from tidelog.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest

AlterRequest = AlterConfigsRequest | IncrementalAlterConfigsRequest


def hand_over_here(request: AlterRequest, context: Context) -> Any:
    """Hand the request to the controller; INVALID_REQUEST where it is for another broker."""
    if _is_for_another_broker(request, context):
        return refuse(request, ErrorCode.INVALID_REQUEST, f"This is broker {context.broker.broker_id}.")
    return submit(request, context)


def _is_for_another_broker(request: AlterRequest, context: Context) -> bool:
    """Whether a client asks here for nothing but options of other brokers."""
    own = str(context.broker.broker_id)
    return (
        bool(request.resources)
        and context.listener != context.broker.inter_broker_listener
        and all(
            resource.resource_type == BROKER and resource.resource_name.isdecimal() and resource.resource_name != own
            for resource in request.resources
        )
    )
