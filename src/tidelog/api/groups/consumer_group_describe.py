"""ConsumerGroupDescribe (key 69, KIP-848)."""

from functools import partial

from tidelog.api.context import Context, Pending
from tidelog.api.groups.describe_groups import ALL_OPERATIONS
from tidelog.api.groups.to_group_coordinator import submit
from tidelog.wire.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)


def handle(request: ConsumerGroupDescribeRequest, context: Context) -> Pending:
    return submit(request, context, partial(_finish, request.include_authorized_operations))


def _finish(with_operations: bool, response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
    for group in response.groups:
        if with_operations and not group.error_code:
            group.authorized_operations = ALL_OPERATIONS
    return response
