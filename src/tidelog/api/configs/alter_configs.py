"""AlterConfigs (33) and IncrementalAlterConfigs (44, KIP-339): options of topics, brokers, groups and loggers.

The first replaces all options of a resource; the second sets, deletes, appends and subtracts single ones. The options
of one broker are altered at that broker, as in Kafka; another broker refuses. Levels of loggers never leave it. New key
and trust stores are checked by the broker that will use them, before the controller takes the request.
"""

from contextlib import suppress
from typing import Any

from tidelog.api.configs.loggers import alter_levels, concern_loggers
from tidelog.api.context import Context, Pending
from tidelog.api.to_controller import submit
from tidelog.config.alter import BROKER, Change, Operation, alter_broker
from tidelog.config.broker import base_name
from tidelog.config.families.security_options import STORES
from tidelog.errors import ApiError, ErrorCode
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
    if (problem := _store_problem(request, context)) is not None:
        return refuse(request, ErrorCode.INVALID_REQUEST, problem)
    return submit(request, context)


def _store_problem(request: AlterRequest, context: Context) -> str | None:
    """Why this broker could not use the key and trust stores that a client requests for it."""
    broker = context.broker
    if broker.certificates is None or context.from_broker:
        return None
    for resource in request.resources:
        names_stores = any(base_name(config.name).startswith(STORES) for config in resource.configs)
        if resource.resource_type != BROKER or resource.resource_name != str(broker.broker_id) or not names_stores:
            continue
        replaces = isinstance(request, AlterConfigsRequest)
        current = {} if replaces else broker.configs.broker(broker.broker_id)
        changes = [Change(e.name, getattr(e, "config_operation", Operation.SET), e.value) for e in resource.configs]
        with suppress(ApiError):  # the controller answers with it
            problem = broker.certificates.problem(alter_broker(current, changes, cluster=False))
            if problem is not None:
                return problem
    return None


def _is_for_another_broker(request: AlterRequest, context: Context) -> bool:
    """Whether a client requests only options of other brokers."""
    own = str(context.broker.broker_id)
    return (
        bool(request.resources)
        and not context.from_broker
        and all(
            resource.resource_type == BROKER and resource.resource_name.isdecimal() and resource.resource_name != own
            for resource in request.resources
        )
    )
