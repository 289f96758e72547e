"""ConsumerGroupHeartbeat: the request that members of the consumer protocol use to join, stay, get assignments and
leave.

The first member of the consumer protocol creates the group, or converts the classic one (`open_group`). Static members
may leave temporarily.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.classic.group import ClassicGroup, ClassicGroupState, join_error, sync_error
from tidelog.coordinator.group.consumer import sessions
from tidelog.coordinator.group.consumer.assignment import advance_member
from tidelog.coordinator.group.consumer.conversion import check_upgrade, consumer_group, upgrade
from tidelog.coordinator.group.consumer.group import ConsumerGroup, Draft
from tidelog.coordinator.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    NO_ASSIGNMENT,
    NO_TIMEOUT,
    ConsumerMember,
    Subscription,
)
from tidelog.coordinator.group.consumer.member_lookup import (
    check_epoch,
    check_room,
    joining_static_member,
    known_member,
    known_static_member,
)
from tidelog.coordinator.group.consumer.records import current_change
from tidelog.coordinator.group.consumer.sessions import fence
from tidelog.coordinator.group.consumer.topics import AssignmentEpochs, TopicIdPartition, partitions_from, to_messages
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.records import group_tombstone
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.groups.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitionsResponse,
)

OWN_ID_VERSION = 1
"""From this version a member chooses its own ID, also when it joins."""


class Sender(NamedTuple):
    client_id: str
    client_host: str
    may_describe: Callable[[str], bool] | None = None
    """Whether it may know of a topic; None: of all."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Raises ApiError for a request that is invalid in every state of the group."""
    epoch = request.member_epoch
    if version >= OWN_ID_VERSION or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        _check_text(request.member_id, "MemberId")
    _check_text(request.group_id, "GroupId")
    _check_text(request.instance_id, "InstanceId")
    _check_text(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")


def _check_text(text: str | None, name: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(f"{name} can't be empty.")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == NO_TIMEOUT:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def check_assignor(name: str | None, served: list[str]) -> None:
    """Raises ApiError UNSUPPORTED_ASSIGNOR."""
    if name is not None and name not in served:
        text = f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(served)}."
        raise ApiError(ErrorCode.UNSUPPORTED_ASSIGNOR, text)


def heartbeat_error(code: ErrorCode, text: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=text)


def heartbeat(machine: GroupMachine, request: ConsumerGroupHeartbeatRequest, sender: Sender) -> Result:
    """Answers errors itself, because they have a message."""
    try:
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            return leave(machine, request)
        return _heartbeat(machine, request, sender)
    except ApiError as error:
        return Result(heartbeat_error(error.code, str(error)))


def _heartbeat(machine: GroupMachine, request: ConsumerGroupHeartbeatRequest, sender: Sender) -> Result:
    machine.check_topics_known()
    is_joining = request.member_epoch == JOIN_EPOCH
    draft = open_group(machine, request.group_id, create=is_joining)
    draft.may_describe = sender.may_describe
    check_room(machine, draft.group, request.member_id)
    owned = None if request.topic_partitions is None else partitions_from(request.topic_partitions)
    before = _member(machine, draft, request, owned)
    member = advance_member(machine, draft, before, _subscription(before.subscription, request, sender), owned)
    sessions.renew_session(machine, request.group_id, member)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.current.epoch,
        heartbeat_interval_ms=machine.group_config(request.group_id).consumer_heartbeat_interval_ms,
    )
    if _is_full_request(request) or member.current.assigned != before.current.assigned:
        response.assignment = _assignment(member.current.assigned)
    return Result(response, draft.changes)


def _member(
    machine: GroupMachine,
    draft: Draft,
    request: ConsumerGroupHeartbeatRequest,
    owned: frozenset[TopicIdPartition] | None,
) -> ConsumerMember:
    group, member_id, instance_id = draft.group, request.member_id, request.instance_id
    if request.member_epoch == JOIN_EPOCH:
        member_id = member_id or machine.new_uuid()
        if instance_id is not None:
            return joining_static_member(draft, member_id, instance_id, is_classic=False)
        member = group.members.get(member_id, ConsumerMember(member_id))
    elif instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_static_member(group, member_id, instance_id)
    check_epoch(member, request.member_epoch, owned)
    return member


def _subscription(before: Subscription, request: ConsumerGroupHeartbeatRequest, sender: Sender) -> Subscription:
    """Fields that the request leaves out keep their value; a member that sends this request uses the consumer
    protocol."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    given = (names, request.subscribed_topic_regex, request.server_assignor, request.rack_id, before.classic)
    sent_by = (sender.client_id, sender.client_host, request.instance_id)
    same = (before.client_id, before.client_host, before.instance_id) == sent_by
    if given == (None, None, None, None, None) and timeout_ms == NO_TIMEOUT and same:
        return before  # the usual heartbeat changes nothing and must be cheap
    return Subscription(
        instance_id=request.instance_id or before.instance_id,
        rack_id=request.rack_id or before.rack_id,
        client_id=sender.client_id,
        client_host=sender.client_host,
        topics=before.topics if names is None else frozenset(names),
        pattern=before.pattern if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        assignor=request.server_assignor or before.assignor,
        classic=None,
    )


def _is_full_request(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A member that joins, or that sends all of its fields again, gets its whole assignment."""
    if request.member_epoch == JOIN_EPOCH:
        return True
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != NO_TIMEOUT and subscribes and request.topic_partitions is not None


def _assignment(assigned: AssignmentEpochs) -> Assignment:
    return Assignment(topic_partitions=to_messages(assigned, TopicPartitionsResponse))


def open_group(machine: GroupMachine, group_id: str, *, create: bool) -> Draft:
    """Raises ApiError GROUP_ID_NOT_FOUND."""
    group = machine.consumers.newest.get(group_id)
    if group is not None:
        return Draft(group)
    classic = machine.groups.get(group_id)
    if not create:
        problem = f"Consumer group {group_id} not found." if classic is None else _not_a_consumer_group(group_id)
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, problem)
    if classic is None:
        return Draft(ConsumerGroup(group_id))
    if classic.is_in(ClassicGroupState.EMPTY):
        return Draft(ConsumerGroup(group_id), [group_tombstone(group_id)])
    check_upgrade(machine, classic)
    return _upgraded(machine, classic)


def _not_a_consumer_group(group_id: str) -> str:
    return f"Group {group_id} is not a consumer group."


def _upgraded(machine: GroupMachine, classic: ClassicGroup) -> Draft:
    """Requests that wait for the classic group's rebalance are answered so that the members rejoin: they are members of
    the new group."""
    draft = Draft(ConsumerGroup(classic.group_id), upgrade(machine, classic))
    for member in classic.members.values():
        machine.reply_join(member, join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
        machine.reply_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    for member_id in draft.group.members:
        sessions.renew_session(machine, classic.group_id, draft.group.members[member_id])
    machine.shard.event("group.upgraded", group=classic.group_id, members=len(classic.members))
    return draft


def leave(machine: GroupMachine, request: ConsumerGroupHeartbeatRequest) -> Result:
    """Raises ApiError GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    group = consumer_group(machine, request.group_id)
    instance_id = request.instance_id
    if instance_id is None:
        member = known_member(group, request.member_id)
    else:
        member = known_static_member(group, request.member_id, instance_id)
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            return _leave_temporarily(request.group_id, member)
    result = fence(machine, group, [member])
    result.response = _left(request.member_id, request.member_epoch)
    return result


def _leave_temporarily(group_id: str, member: ConsumerMember) -> Result:
    """The member keeps its partitions until its session ends."""
    current = member.current._replace(
        epoch=LEAVE_STATIC_EPOCH, assigned=dict.fromkeys(member.current.assigned, 0), revoking=NO_ASSIGNMENT
    )
    changes = [current_change(group_id, member.member_id, current)]
    return Result(_left(member.member_id, LEAVE_STATIC_EPOCH), changes)


def _left(member_id: str, epoch: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch)
