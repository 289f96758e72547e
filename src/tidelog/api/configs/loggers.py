"""Levels of this broker's log lines (KIP-412): set at the broker itself, and lost when it stops."""

from tidelog.api.context import Context
from tidelog.config import loggers
from tidelog.config.alter import BROKER_LOGGER, Change
from tidelog.config.describe import Described, Source
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def concern_loggers(request: IncrementalAlterConfigsRequest) -> bool:
    """Whether nothing but levels is changed."""
    kinds = {resource.resource_type for resource in request.resources}
    return kinds == {BROKER_LOGGER}


def alter_levels(request: IncrementalAlterConfigsRequest, context: Context) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[_altered(resource, request, context) for resource in request.resources]
    )


def _altered(
    resource: AlterConfigsResource, request: IncrementalAlterConfigsRequest, context: Context
) -> AlterConfigsResourceResponse:
    answer = AlterConfigsResourceResponse(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
    )
    try:
        check_is_me(resource.resource_name, context)
        if sum(other.resource_name == resource.resource_name for other in request.resources) > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "A resource appears more than once in the request.")
        changes = [Change(each.name, each.config_operation, each.value) for each in resource.configs]
        altered = loggers.alter_loggers(context.broker.levels, changes)
        if not request.validate_only:
            context.broker.set_levels(altered)
    except ApiError as error:
        answer.error_code, answer.error_message = error.code, error.message
    return answer


def described(context: Context, names: list[str] | None) -> list[Described]:
    """Every logger with the level in force."""
    levels = context.broker.levels
    return [
        Described(name, loggers.level_of(levels, name), Source.BROKER_LOGGER, False, False, 0, None, [])
        for name in sorted(loggers.LOGGERS)
        if not names or name in names
    ]


def check_is_me(name: str, context: Context) -> None:
    """INVALID_REQUEST if the name is not the ID of this broker."""
    own = context.broker.broker_id
    if not name.isdecimal():
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid broker ID {name!r}; expected an integer.")
    if int(name) != own:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"This is broker {own}; send the request to broker {name}.")
