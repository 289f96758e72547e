"""LeaveGroup (key 13)."""

from functools import partial

from tidelog.api.context import Context, Pending
from tidelog.api.groups.to_group_coordinator import submit
from tidelog.wire.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

BATCH_VERSION = 3
"""From this version on several members leave in one request (KIP-345)."""


def handle(request: LeaveGroupRequest, context: Context) -> Pending:
    if context.version < BATCH_VERSION:
        request.members = [MemberIdentity(member_id=request.member_id)]
    return submit(request, context, partial(_finish, context.version))


def _finish(version: int, response: LeaveGroupResponse) -> LeaveGroupResponse:
    """An old client reads the request's code only, so that of its one member goes there."""
    if version < BATCH_VERSION and not response.error_code and response.members:
        response.error_code = response.members[0].error_code
    return response
