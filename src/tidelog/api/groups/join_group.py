"""JoinGroup (key 11)."""

from functools import partial

from tidelog.api.context import Context, Pending
from tidelog.api.groups.to_group_coordinator import submit
from tidelog.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse

REBALANCE_TIMEOUT_VERSION = 1
NO_PROTOCOL_VERSION = 7
"""From this version on a group that has chosen no protocol answers null; before, an empty name."""


def handle(request: JoinGroupRequest, context: Context) -> Pending:
    if context.version < REBALANCE_TIMEOUT_VERSION:
        request.rebalance_timeout_ms = request.session_timeout_ms
    return submit(request, context, partial(_finish, context.version))


def _finish(version: int, response: JoinGroupResponse) -> JoinGroupResponse:
    if version < NO_PROTOCOL_VERSION and response.protocol_name is None:
        response.protocol_name = ""
    return response
