"""DeleteGroups (key 42)."""

from tidelog.api.context import Context, Handed
from tidelog.api.groups.handing import hand_over
from tidelog.wire.messages.groups.delete_groups import DeleteGroupsRequest


def handle(request: DeleteGroupsRequest, context: Context) -> Handed:
    return hand_over(request, context)
