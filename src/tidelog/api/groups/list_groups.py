"""ListGroups (key 16)."""

from tidelog.api.context import Context, Handed
from tidelog.api.groups.handing import hand_over
from tidelog.wire.messages.groups.list_groups import ListGroupsRequest


def handle(request: ListGroupsRequest, context: Context) -> Handed:
    return hand_over(request, context)
