"""Options of one broker are altered at that broker, as Kafka wants it; a client that asks another one is told so."""

from tidelog.api.context import Context
from tidelog.wire.messages.cluster.alter_configs import AlterConfigsRequest
from tidelog.wire.messages.cluster.incremental_alter_configs import IncrementalAlterConfigsRequest

BROKER = 4


def is_for_another_broker(request: AlterConfigsRequest | IncrementalAlterConfigsRequest, context: Context) -> bool:
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
