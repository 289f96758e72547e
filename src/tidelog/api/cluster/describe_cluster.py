"""DescribeCluster (60): the cluster's id, its controller and its brokers (KIP-700), or its controllers (KIP-919)."""

from tidelog.api import authorized_operations as operations
from tidelog.api.context import Context
from tidelog.api.topics.metadata import alive, shown_controller
from tidelog.errors import ErrorCode
from tidelog.wire.messages.cluster.brokers import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2


def handle(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == CONTROLLERS
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = "This endpoint is for brokers." if known else f"Unknown endpoint type {request.endpoint_type}."
        return DescribeClusterResponse(error_code=code, error_message=message)
    image = context.broker.image
    response = DescribeClusterResponse(
        cluster_id=context.broker.cluster_id,
        controller_id=shown_controller(image),
        brokers=[
            DescribeClusterBroker(broker_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in alive(image, context.listener)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = operations.of_cluster(context)
    return response


def controllers(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    """On the listeners of controllers, which clients with `bootstrap.controllers` ask."""
    quorum = context.broker.quorum
    assert quorum is not None, "listeners of controllers are opened with a quorum only"
    if request.endpoint_type != CONTROLLERS:
        known = request.endpoint_type == BROKERS
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        code = code if context.version > 0 else ErrorCode.INVALID_REQUEST  # the others are not in version 0
        message = "This endpoint is for controllers." if known else f"Unknown endpoint type {request.endpoint_type}."
        return DescribeClusterResponse(error_code=code, error_message=message)
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=context.broker.cluster_id,
        controller_id=quorum.leader_id,
        brokers=[
            DescribeClusterBroker(broker_id=node, host=endpoint.host, port=endpoint.port)
            for node, endpoint in quorum.controllers
        ],
    )
