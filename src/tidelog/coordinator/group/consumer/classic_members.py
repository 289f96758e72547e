"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members of a consumer group that use the classic protocol.

For such a member the group's epoch is the generation. It gets no list of members, computes no assignment, and is told
to rejoin whenever it must give up partitions or may get more; in this way it reconciles as the other members do.
"""

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.classic.group import CONSUMER, UNKNOWN_MEMBER, join_error
from tidelog.coordinator.group.classic.join import KNOWN_MEMBER_VERSION, JoinContext
from tidelog.coordinator.group.consumer import conversion, embedded, sessions, subscriptions
from tidelog.coordinator.group.consumer.assignment import advance_member, reconcile_member
from tidelog.coordinator.group.consumer.group import ConsumerGroup, Draft
from tidelog.coordinator.group.consumer.member import ClassicMetadata, ConsumerMember, MemberState, Subscription
from tidelog.coordinator.group.consumer.member_lookup import (
    check_room,
    joining_static_member,
    known_member,
    known_static_member,
)
from tidelog.coordinator.group.consumer.sessions import Deadline, fence
from tidelog.coordinator.group.consumer.topics import TopicIdPartition
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.groups.classic_group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tidelog.wire.messages.groups.consumer_protocol import ConsumerProtocolSubscription

# Joining.


def join(machine: GroupMachine, group: ConsumerGroup, context: JoinContext) -> Result:
    """Members of the classic protocol get no leader: the server assigns. Raises ApiError with the code for the
    member."""
    machine.check_topics_known()
    request = context.request
    if conversion.policy(machine) == "disabled":
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    check_room(machine, group, request.member_id)
    _check_protocols(group, request)
    member_id = request.member_id or machine.new_uuid()
    is_unknown = request.member_id == UNKNOWN_MEMBER
    if is_unknown and request.group_instance_id is None and context.version >= KNOWN_MEMBER_VERSION:
        return Result(join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
    draft = Draft(group)
    member = _member(draft, member_id, request.group_instance_id, is_unknown=is_unknown)
    subscription = embedded.read_subscription(request.protocols[0].metadata)
    if subscription is None:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the subscription cannot be read")
    owned = embedded.known_partitions(machine.cluster, subscription.owned_partitions)
    new_subscription = _subscription(member.subscription, context, subscription)
    replaced = group.static_member(request.group_instance_id)
    others = [other for other in draft.group.members.values() if other.member_id != member.member_id]
    if (
        replaced is not None
        and not replaced.is_classic
        and conversion.may_downgrade(machine, [*others, _as_member(new_subscription)])
    ):
        return _join_and_downgrade(machine, draft, member, new_subscription, owned)
    member = advance_member(machine, draft, member, new_subscription, owned)
    sessions.cancel_deadline(machine, Deadline.JOIN, group.group_id, member.member_id)
    sessions.renew_session(machine, group.group_id, member)
    sessions.set_sync_deadline(machine, group.group_id, member)
    return Result(_joined(member), draft.changes)


def _as_member(subscription: Subscription) -> ConsumerMember:
    return ConsumerMember(UNKNOWN_MEMBER, subscription)


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    """Raises ApiError INCONSISTENT_GROUP_PROTOCOL unless all classic members have a protocol in common."""
    names = {protocol.name for protocol in request.protocols}
    for member in group.classic_members():
        assert member.subscription.classic is not None
        names &= {protocol.name for protocol in member.subscription.classic.protocols}
    if request.protocol_type != CONSUMER or not names:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _member(draft: Draft, member_id: str, instance_id: str | None, *, is_unknown: bool) -> ConsumerMember:
    if instance_id is None:
        return draft.group.members.get(member_id, ConsumerMember(member_id))
    if is_unknown:
        return joining_static_member(draft, member_id, instance_id, is_classic=True)
    return known_static_member(draft.group, member_id, instance_id)


def _subscription(before: Subscription, context: JoinContext, message: ConsumerProtocolSubscription) -> Subscription:
    request = context.request
    return before._replace(
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=message.rack_id or before.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        topics=frozenset(message.topics),
        pattern="",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicMetadata(request.session_timeout_ms, tuple(context.protocols)),
    )


def _joined(member: ConsumerMember) -> JoinGroupResponse:
    assert member.subscription.classic is not None
    return JoinGroupResponse(
        generation_id=member.current.epoch,
        protocol_type=CONSUMER,
        protocol_name=member.subscription.classic.protocols[0].name,
        member_id=member.member_id,
    )


def _join_and_downgrade(
    machine: GroupMachine,
    draft: Draft,
    member: ConsumerMember,
    new_subscription: Subscription,
    owned: frozenset[TopicIdPartition],
) -> Result:
    """The static member was the last one of the consumer protocol. If it changed nothing, and every member has its
    target, the classic group continues with those assignments. A member that still waits for a partition of another one
    would never get it from a stable classic group, which records it as the owner."""
    changed = subscriptions.update(machine, draft, member, new_subscription)
    member = member._replace(subscription=new_subscription)
    is_stale = draft.group.target.epoch < draft.group.epoch
    if not is_stale:
        member = reconcile_member(machine, draft, member, owned, changed=changed)
    group = draft.group
    members = group.members.values()
    rebalance_now = not all(member.current.is_reconciled(group.epoch) for member in members)
    changes = [*draft.changes, *conversion.downgrade(machine, group, members, rebalance_now=rebalance_now)]

    def on_done(code: ErrorCode) -> Result:
        return sessions.group_downgraded(machine, group.group_id, code, rebalance_now=rebalance_now)

    return Result(_joined(member), changes, on_done)


# In the group.


def _known(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int | None = None
) -> ConsumerMember:
    """Raises ApiError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION."""
    if instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_static_member(group, member_id, instance_id)
    if not member.is_classic:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if generation is not None and generation != member.current.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    return member


def sync(machine: GroupMachine, group: ConsumerGroup, request: SyncGroupRequest) -> Result:
    """Raises ApiError with the code for the member."""
    machine.check_topics_known()
    member = _known(group, request.member_id, request.group_instance_id, request.generation_id)
    classic = member.subscription.classic
    assert classic is not None
    protocol = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, protocol.name):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    is_behind = group.target.epoch > member.current.epoch
    if is_behind and member.current.state != MemberState.UNREVOKED_PARTITIONS:
        sessions.set_join_deadline(machine, group.group_id, member)
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    sessions.cancel_deadline(machine, Deadline.SYNC, group.group_id, member.member_id)
    sessions.renew_session(machine, group.group_id, member)
    version = embedded.protocol_version(protocol.metadata)
    assignment = embedded.write_assignment(machine.cluster, member.current.assigned, version)
    return Result(
        SyncGroupResponse(
            protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
        )
    )


def heartbeat(machine: GroupMachine, group: ConsumerGroup, request: HeartbeatRequest) -> Result:
    """Raises ApiError with the code for the member."""
    member = _known(group, request.member_id, request.group_instance_id, request.generation_id)
    sessions.renew_session(machine, group.group_id, member)
    if not _must_join_again(group, member):
        return Result(HeartbeatResponse())
    sessions.set_join_deadline(machine, group.group_id, member)
    return Result(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def _must_join_again(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """If the group has no member of the consumer protocol to trigger a new target, classic members do."""
    state = member.current.state
    if member.current.epoch < group.target.epoch or state == MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.current.epoch < group.epoch and all(other.is_classic for other in group.members.values()):
        return True
    return state == MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)


def leave(machine: GroupMachine, group: ConsumerGroup, request: LeaveGroupRequest) -> Result:
    """Every member gets its own result. An operator may remove static members of either protocol by instance ID."""
    leaving: dict[str, ConsumerMember] = {}
    answers = [_leave_one(group, identity, leaving) for identity in request.members]
    result = fence(machine, group, list(leaving.values()))
    result.response = LeaveGroupResponse(members=answers)
    return result


def _leave_one(group: ConsumerGroup, identity: MemberIdentity, leaving: dict[str, ConsumerMember]) -> MemberResponse:
    code = ErrorCode.NONE
    try:
        member = _leaving(group, identity)
        leaving[member.member_id] = member
    except ApiError as error:
        code = error.code
    return MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    if identity.group_instance_id is None:
        return known_member(group, identity.member_id)
    if identity.member_id == UNKNOWN_MEMBER:
        member = group.static_member(identity.group_instance_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {identity.group_instance_id} is unknown.")
        return member
    return known_static_member(group, identity.member_id, identity.group_instance_id)
