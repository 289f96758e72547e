"""ConsumerGroupHeartbeat (key 68, KIP-848)."""

from tidelog.api.context import Context, Handed
from tidelog.api.groups.handing import hand_over
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

PROTOCOL = "consumer"


def handle(request: ConsumerGroupHeartbeatRequest, context: Context) -> ConsumerGroupHeartbeatResponse | Handed:
    """Where the protocol is not served, it is as if the API were not there."""
    if PROTOCOL not in context.broker.config.group_coordinator_rebalance_protocols:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return hand_over(request, context)
