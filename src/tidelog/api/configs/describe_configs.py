"""DescribeConfigs (32): every option of a topic, a broker or a group, with source, synonyms and documentation (KIP-133,
226, 569, 848).

A broker answers for itself, for the cluster-wide dynamic options (the broker named ''), and for every topic.
"""

from tidelog.api.configs import loggers
from tidelog.api.context import Context
from tidelog.config import describe
from tidelog.config.alter import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from tidelog.config.describe import Described
from tidelog.controller import topic_names
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_answer(resource, request, context) for resource in request.resources])


def _answer(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: Context
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        described = _described(resource, context)
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message or ""
        return result
    result.configs = [_line(option, request) for option in described]
    return result


def _described(resource: DescribeConfigsResource, context: Context) -> list[Described]:
    broker, name, keys = context.broker, resource.resource_name, resource.configuration_keys
    if resource.resource_type == TOPIC:
        if (fault := topic_names.fault(name)) is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
        if name not in broker.image.topics:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe.describe_topic(broker.configs.topic(name), broker.config, keys)
    if resource.resource_type == BROKER and not name:
        return describe.describe_cluster(broker.config, keys)
    if resource.resource_type in (BROKER, BROKER_LOGGER):
        loggers.check_is_me(name, context)
        if resource.resource_type == BROKER_LOGGER:
            return loggers.described(context, keys)
        return describe.describe_broker(broker.config, keys)
    if resource.resource_type in (CLIENT_METRICS, GROUP):
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The resource name must not be empty.")
        if resource.resource_type == GROUP:
            return describe.describe_group(broker.configs.group(name), broker.config, keys)
        return []
    raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}.")


def _line(option: Described, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = option.synonyms if request.include_synonyms else []
    return DescribeConfigsResourceResult(
        name=option.name,
        value=option.value,
        read_only=option.read_only,
        config_source=option.source,
        is_sensitive=option.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms],
        config_type=option.type,
        documentation=option.documentation if request.include_documentation else None,
    )
