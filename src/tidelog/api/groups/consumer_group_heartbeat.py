"""ConsumerGroupHeartbeat (key 68, KIP-848)."""

from typing import Any

from tidelog.api.context import Context
from tidelog.api.groups.to_group_coordinator import ask
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

PROTOCOL = "consumer"


def handle(request: ConsumerGroupHeartbeatRequest, context: Context) -> Any:
    """Where the protocol is not served, it is as if the API were not there."""
    if PROTOCOL not in context.broker.config.group_coordinator_rebalance_protocols:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ask(request, context)
