"""ListConfigResources (74): the names of everything that has options (KIP-1142). Version 0 lists client metrics."""

from tidelog.api.context import Context
from tidelog.config.alter import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, TYPES
from tidelog.errors import ErrorCode
from tidelog.wire.messages.configs.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(request: ListConfigResourcesRequest, context: Context) -> ListConfigResourcesResponse:
    wanted = request.resource_types if context.version > 0 else [CLIENT_METRICS]
    if not set(wanted) <= set(TYPES):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image, configs = context.broker.image, context.broker.configs
    brokers = [str(broker) for broker in image.brokers]
    found = {TOPIC: list(image.topics), BROKER: brokers, BROKER_LOGGER: brokers, GROUP: configs.groups()}
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in TYPES
            if kind in (wanted or TYPES)
            for name in found.get(kind, [])
        ]
    )
