"""ConsumerGroupDescribe (key 69, KIP-848)."""

from functools import partial

from tidelog.api.context import Context, Handed
from tidelog.api.groups.describe_groups import ALL_OPERATIONS
from tidelog.api.groups.handing import hand_over
from tidelog.wire.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)


def handle(request: ConsumerGroupDescribeRequest, context: Context) -> Handed:
    return hand_over(request, context, partial(_finish, request.include_authorized_operations))


def _finish(with_operations: bool, response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
    for group in response.groups:
        if with_operations and not group.error_code:
            group.authorized_operations = ALL_OPERATIONS
    return response
