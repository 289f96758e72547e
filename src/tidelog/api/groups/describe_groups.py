"""DescribeGroups (key 15)."""

from functools import partial

from tidelog.api.context import Context, Pending
from tidelog.api.groups.to_group_coordinator import submit
from tidelog.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

OPERATIONS_VERSION = 3
READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 6, 8, 10, 11
ALL_OPERATIONS = sum(1 << operation for operation in (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS))
"""What anyone may do to a group where there is no authorizer, as a bit field of Kafka's AclOperation numbers."""


def handle(request: DescribeGroupsRequest, context: Context) -> Pending:
    with_operations = context.version >= OPERATIONS_VERSION and request.include_authorized_operations
    return submit(request, context, partial(_finish, with_operations))


def _finish(with_operations: bool, response: DescribeGroupsResponse) -> DescribeGroupsResponse:
    for group in response.groups:
        if with_operations and not group.error_code:
            group.authorized_operations = ALL_OPERATIONS
    return response
