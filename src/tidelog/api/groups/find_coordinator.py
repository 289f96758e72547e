"""FindCoordinator (key 10): the leader of the internal topic's partition that the key belongs to.

If the internal topic does not exist yet, its creation is requested from the controller, and the client retries.
"""

from typing import NamedTuple

from tidelog.api.context import Context
from tidelog.api.topics.auto_create import auto_create
from tidelog.coordinator.placement import partition_for
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import GROUP_TOPIC, TRANSACTION_TOPIC, Endpoint
from tidelog.wire.messages.groups.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

BATCH_VERSION = 4
GROUP, TRANSACTION = 0, 1
TOPICS = {GROUP: GROUP_TOPIC, TRANSACTION: TRANSACTION_TOPIC}
"""Where the coordinators of each type of key keep what they know."""
NO_NODE = -1


class Found(NamedTuple):
    code: ErrorCode
    node_id: int = NO_NODE
    host: str = ""
    port: int = NO_NODE

    @property
    def message(self) -> str:
        return "NONE" if self.code == ErrorCode.NONE else self.code.name.replace("_", " ").lower()


def handle(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    topic = TOPICS.get(request.key_type)
    if topic is not None and topic not in context.broker.image.topics:
        auto_create([topic], context)
    if context.version >= BATCH_VERSION:
        keys = request.coordinator_keys
        return FindCoordinatorResponse(coordinators=[_coordinator(key, _find(request, key, context)) for key in keys])
    found = _find(request, request.key, context)
    return FindCoordinatorResponse(
        error_code=found.code,
        error_message=found.message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _coordinator(key: str, found: Found) -> Coordinator:
    """Only a request that makes no sense is explained here."""
    message = found.message if found.code == ErrorCode.INVALID_REQUEST else ""
    return Coordinator(
        key=key, node_id=found.node_id, host=found.host, port=found.port, error_code=found.code, error_message=message
    )


def _find(request: FindCoordinatorRequest, key: str, context: Context) -> Found:
    topic = TOPICS.get(request.key_type)
    if topic is None:
        return Found(ErrorCode.INVALID_REQUEST)
    try:
        node_id, endpoint = _leader(topic, key, context)
    except ApiError as error:
        return Found(error.code)
    return Found(ErrorCode.NONE, node_id, endpoint.host, endpoint.port)


def _leader(name: str, key: str, context: Context) -> tuple[int, Endpoint]:
    """ApiError COORDINATOR_NOT_AVAILABLE where the partition has no leader that the caller's listener reaches."""
    image = context.broker.image
    topic = image.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partition = topic.partitions.get(partition_for(key, len(topic.partitions)))
    leader = None if partition is None else image.brokers.get(partition.leader)
    endpoint = None if leader is None else leader.endpoints.get(context.listener)
    if leader is None or endpoint is None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return leader.id, endpoint
