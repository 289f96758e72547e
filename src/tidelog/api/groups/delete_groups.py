"""DeleteGroups (key 42)."""

from tidelog.api.context import Context, Pending
from tidelog.api.groups.to_group_coordinator import submit
from tidelog.wire.messages.groups.delete_groups import DeleteGroupsRequest


def handle(request: DeleteGroupsRequest, context: Context) -> Pending:
    return submit(request, context)
