"""Reading configs: DescribeConfigs (32) and ListConfigResources (74).

DescribeConfigs answers every option of a topic, a broker or a group, with source, synonyms and documentation (KIP-133,
226, 569, 848). A broker answers for itself, for the cluster-wide dynamic options (the broker named ''), and for every
topic. ListConfigResources names everything that has options (KIP-1142).
"""

from collections.abc import Mapping
from functools import partial

from tidelog.api.configs import loggers
from tidelog.api.context import Context
from tidelog.config import describe
from tidelog.config.alter import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, TYPES
from tidelog.config.describe import Described
from tidelog.controller import topic_names
from tidelog.errors import ApiError, ErrorCode
from tidelog.slices import Sliced, made_of
from tidelog.wire.messages.configs.describe_configs import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

Defaults = dict[tuple[int, tuple[str, ...]], list[DescribeConfigsResourceResult]]
"""What a request gets for topics or groups without values of their own, by type and requested options. Most have none,
and to describe one takes a fifth of a millisecond."""


def handle(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    defaults: Defaults = {}
    return DescribeConfigsResponse(
        results=[_answer(resource, request, context, defaults) for resource in request.resources]
    )


def _answer(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: Context, defaults: Defaults
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        overrides = _overrides(resource, context)
        asked = resource.resource_type, tuple(resource.configuration_keys or ())
        found = None if overrides else defaults.get(asked)
        if found is None:
            found = [_line(option, request) for option in _described(resource, overrides or {}, context)]
            if overrides is not None and not overrides:
                defaults[asked] = found
        result.configs = found
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message or ""
    return result


def _overrides(resource: DescribeConfigsResource, context: Context) -> Mapping[str, str] | None:
    """The values of a topic or group of its own; None for other resources."""
    broker, name = context.broker, resource.resource_name
    if resource.resource_type == TOPIC:
        if (fault := topic_names.fault(name)) is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
        if name not in broker.image.topics:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return broker.configs.topic(name)
    return broker.configs.group(name) if resource.resource_type == GROUP and name else None


def _described(resource: DescribeConfigsResource, overrides: Mapping[str, str], context: Context) -> list[Described]:
    broker, name, keys = context.broker, resource.resource_name, resource.configuration_keys
    if resource.resource_type == TOPIC:
        return describe.describe_topic(overrides, broker.config, keys)
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
            return describe.describe_group(overrides, broker.config, keys)
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


def list_resources(request: ListConfigResourcesRequest, context: Context) -> Sliced[ListConfigResourcesResponse]:
    """Version 0 lists client metrics only."""
    wanted = request.resource_types if context.version > 0 else [CLIENT_METRICS]
    if not set(wanted) <= set(TYPES):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image, configs = context.broker.image, context.broker.configs
    brokers = [str(broker) for broker in image.brokers]
    found = {TOPIC: list(image.topics), BROKER: brokers, BROKER_LOGGER: brokers, GROUP: configs.groups()}
    resources: list[ConfigResource] = []
    for kind in TYPES:
        if kind in (wanted or TYPES):
            resources += yield from made_of(found.get(kind, []), partial(_resource, kind))
    return ListConfigResourcesResponse(config_resources=resources)


def _resource(kind: int, name: str) -> ConfigResource:
    return ConfigResource(resource_name=name, resource_type=kind)
