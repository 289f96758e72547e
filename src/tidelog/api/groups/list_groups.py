"""ListGroups (key 16)."""

from tidelog.api.context import Context, Pending
from tidelog.api.groups.to_group_coordinator import submit
from tidelog.wire.messages.groups.list_groups import ListGroupsRequest


def handle(request: ListGroupsRequest, context: Context) -> Pending:
    return submit(request, context)
