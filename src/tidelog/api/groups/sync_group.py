"""SyncGroup (key 14)."""

from tidelog.api.context import Context, Pending
from tidelog.api.groups.to_group_coordinator import submit
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse

NAMED_PROTOCOL_VERSION = 5
"""From this version on a member says which protocol it believes in (KIP-559)."""


def handle(request: SyncGroupRequest, context: Context) -> SyncGroupResponse | Pending:
    if context.version >= NAMED_PROTOCOL_VERSION and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return submit(request, context)
