"""Requests that the group coordinator answers as they are: joining, describing, listing and deleting groups.

What depends on the version of the request is done here, on its way to the coordinator and on the way of its answer
back. DeleteGroups (42) and ListGroups (16) need nothing of the kind: `submit` is their handler in `api/registry.py`,
and `request_now` that of Heartbeat (12). Offsets have files of their own.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeVar

from tidelog.api import authorized_operations as operations
from tidelog.api.context import PENDING, Context, Pending
from tidelog.api.matching import match_all
from tidelog.coordinator.group import Caller
from tidelog.coordinator.patterns import PatternProblem, whole_matcher
from tidelog.effects import Reply
from tidelog.errors import ErrorCode
from tidelog.model import GROUP_TOPIC
from tidelog.security.acls import AclOperation, ResourceType
from tidelog.wire.messages.groups.classic_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tidelog.wire.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tidelog.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.wire.messages.groups.group_admin import DescribeGroupsRequest, DescribeGroupsResponse

Described = TypeVar("Described", DescribeGroupsResponse, ConsumerGroupDescribeResponse)

CONSUMER_PROTOCOL = "consumer"
REBALANCE_TIMEOUT_SINCE = 1
"""Before this version of JoinGroup the session timeout is also the rebalance timeout."""
NO_PROTOCOL_SINCE = 7
"""Since this version of JoinGroup a group that has chosen no protocol answers null; before, an empty name."""
NAMED_PROTOCOL_SINCE = 5
"""Since this version of SyncGroup a member names the protocol it believes in (KIP-559)."""
SEVERAL_LEAVE_SINCE = 3
"""Since this version of LeaveGroup several members leave in one request (KIP-345)."""
OPERATIONS_SINCE = 3
"""Since this version DescribeGroups may request the authorized operations."""


def submit(request: Any, context: Context, finish: Callable[[Any], Any] | None = None) -> Pending:
    """Give the request to the coordinator, which will reply; `finish` makes its answer ready for the version."""
    groups = context.broker.groups
    context.effects.extend(groups.handle(context.token, request, caller(context), context.now, finish))
    return PENDING


def request_now(request: Any, context: Context) -> Any:
    """As `submit`, for what the coordinator mostly answers at once: such an answer takes no place among those that
    are waited for."""
    effects = context.broker.groups.handle(context.token, request, caller(context), context.now)
    if len(effects) == 1 and isinstance(effects[0], Reply) and effects[0].token == context.token:
        return effects[0].response
    context.effects.extend(effects)
    return PENDING


def caller(context: Context) -> Caller:
    """Hosts are shown as Java prints an address."""
    topic, access = context.broker.image.topics.get(GROUP_TOPIC), context.access
    return Caller(
        client_id=context.client_id or "",
        client_host=f"/{context.peer}",
        version=context.version,
        partitions=0 if topic is None else len(topic.partitions),
        may_describe=None if access is None else partial(access.allows, AclOperation.DESCRIBE, ResourceType.TOPIC),
    )


# Members. A classic member joins, syncs, sends heartbeats and leaves; one of the consumer protocol only sends
# heartbeats.


def join_group(request: JoinGroupRequest, context: Context) -> Pending:
    """JoinGroup (11)."""
    if context.version < REBALANCE_TIMEOUT_SINCE:
        request.rebalance_timeout_ms = request.session_timeout_ms
    return submit(request, context, partial(_joined, context.version))


def _joined(version: int, response: JoinGroupResponse) -> JoinGroupResponse:
    if version < NO_PROTOCOL_SINCE and response.protocol_name is None:
        response.protocol_name = ""
    return response


def sync_group(request: SyncGroupRequest, context: Context) -> SyncGroupResponse | Pending:
    """SyncGroup (14)."""
    if context.version >= NAMED_PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return submit(request, context)


def leave_group(request: LeaveGroupRequest, context: Context) -> Pending:
    """LeaveGroup (13)."""
    if context.version < SEVERAL_LEAVE_SINCE:
        request.members = [MemberIdentity(member_id=request.member_id)]
    return submit(request, context, partial(_left, context.version))


def _left(version: int, response: LeaveGroupResponse) -> LeaveGroupResponse:
    """An old client reads the request's code only, so that of its one member goes there."""
    if version < SEVERAL_LEAVE_SINCE and not response.error_code and response.members:
        response.error_code = response.members[0].error_code
    return response


def consumer_group_heartbeat(request: ConsumerGroupHeartbeatRequest, context: Context) -> Any:
    """ConsumerGroupHeartbeat (68, KIP-848). Where the protocol is not served, it is as if the API were not there."""
    if CONSUMER_PROTOCOL not in context.broker.config.group_coordinator_rebalance_protocols:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if request.subscribed_topic_regex:
        return _match_before(request, context)
    return request_now(request, context)


def _match_before(request: ConsumerGroupHeartbeatRequest, context: Context) -> Generator[None, None, Any]:
    try:
        matches = whole_matcher(request.subscribed_topic_regex or "")
    except PatternProblem:
        return request_now(request, context)
    yield from match_all(matches, context.broker.image.topics)
    return request_now(request, context)


# Descriptions.


def describe_groups(request: DescribeGroupsRequest, context: Context) -> Pending:
    """DescribeGroups (15)."""
    with_operations = context.version >= OPERATIONS_SINCE and request.include_authorized_operations
    return submit(request, context, partial(_described, context, with_operations))


def consumer_group_describe(request: ConsumerGroupDescribeRequest, context: Context) -> Pending:
    """ConsumerGroupDescribe (69, KIP-848)."""
    return submit(request, context, partial(_described, context, request.include_authorized_operations))


def _described(context: Context, with_operations: bool, response: Described) -> Described:
    for group in response.groups:
        if with_operations and not group.error_code:
            group.authorized_operations = operations.of_group(context, group.group_id)
    return response
