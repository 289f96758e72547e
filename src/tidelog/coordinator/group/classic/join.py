"""JoinGroup: new and returning members, and what they change in the group.

A new dynamic member first gets an ID and must join again with it (KIP-394), so that a client that repeats its request
does not become two members. A static member (KIP-345) that returns with the same instance ID replaces the process
before it; if nothing else changed, the group continues without a rebalance.
"""

from functools import partial
from typing import NamedTuple

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.classic import rebalance
from tidelog.coordinator.group.classic.group import (
    UNKNOWN_MEMBER,
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
    MemberProtocol,
    choose_protocol,
    common_protocols,
    join_error,
    join_response,
    sync_error,
)
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.records import group_change, new_group_change
from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.groups.classic_group import JoinGroupRequest, JoinGroupResponse

KNOWN_MEMBER_VERSION = 4
"""From this version of JoinGroup a dynamic member must join with an ID."""
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a member may wait that cannot send heartbeats because it does not know its ID yet."""


class JoinContext(NamedTuple):
    """A JoinGroup request and its sender."""

    token: int
    request: JoinGroupRequest
    version: int
    client_id: str
    client_host: str

    @property
    def protocols(self) -> list[MemberProtocol]:
        return [MemberProtocol(protocol.name, protocol.metadata) for protocol in self.request.protocols]


def join(machine: GroupMachine, context: JoinContext) -> Result:
    """Answer at once, or keep the request waiting. A new group is written at once, so that readers see groups in the
    order of the log. The member that created it is answered once that is done: an ID in a group that was not written
    would be refused at the next request, and the client would repeat this forever."""
    request = context.request
    group = machine.groups.get(request.group_id)
    if group is None and request.member_id != UNKNOWN_MEMBER:
        machine.shard.reply(context.token, join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
        return Result()
    is_new = group is None
    group = group or machine.create_group(request.group_id)
    result = _join(machine, context, group)
    response, result.response = result.response, None
    if is_new and not result.changes:
        on_done = partial(_group_written, machine, group, context, response)
        return Result(changes=[new_group_change(group)], on_done=on_done)
    if response is not None:
        machine.shard.reply(context.token, response)
    return result


def _group_written(
    machine: GroupMachine,
    group: ClassicGroup,
    context: JoinContext,
    response: JoinGroupResponse | None,
    code: ErrorCode,
) -> Result:
    """A group that could not be written does not exist: remove it."""
    if code != ErrorCode.NONE and group.created_offset is None and not group.is_in(ClassicGroupState.DEAD):
        machine.remove_group(group, code)
    if response is not None:
        refused = join_error(UNKNOWN_MEMBER, code)
        machine.shard.reply(context.token, refused if code != ErrorCode.NONE else response)
    return Result()


def _join(machine: GroupMachine, context: JoinContext, group: ClassicGroup) -> Result:
    request = context.request
    if not group.accepts(request.member_id, machine.config.group_max_size):
        group.remove(request.member_id)
        machine.cancel_session(group, request.member_id)
        result = rebalance.maybe_complete_join(machine, group)
        result.response = join_error(UNKNOWN_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED)
        return result
    if not group.supports(request.protocol_type, (protocol.name for protocol in request.protocols)):
        return Result(join_error(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if request.member_id == UNKNOWN_MEMBER:
        return _join_new(machine, context, group)
    if request.member_id in group.pending_members:
        if request.group_instance_id is not None:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "a static member must not join with an ID that was given to a dynamic member",
            )
        return _add_member(machine, context, group, request.member_id)
    return _rejoin(machine, context, group)


def _join_new(machine: GroupMachine, context: JoinContext, group: ClassicGroup) -> Result:
    instance_id = context.request.group_instance_id
    member_id = machine.new_member_id(context.client_id if instance_id is None else instance_id)
    if instance_id is not None and instance_id in group.static_members:
        return _rejoin_static(machine, context, group, member_id)
    if instance_id is None and context.version >= KNOWN_MEMBER_VERSION:
        group.pending_members[member_id] = None
        machine.renew_session(group, member_id, context.request.session_timeout_ms)
        return Result(join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
    return _add_member(machine, context, group, member_id)


def _add_member(machine: GroupMachine, context: JoinContext, group: ClassicGroup, member_id: str) -> Result:
    request = context.request
    member = ClassicMember(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id,
        client_host=context.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=context.protocols,
        join_token=context.token,
        is_new=True,
    )
    if group.is_in(ClassicGroupState.PREPARING_REBALANCE) and group.previous_state == ClassicGroupState.EMPTY:
        group.new_member_added = True
    group.add(member)
    machine.renew_session(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
    return rebalance.prepare_or_complete(machine, group, f"{member_id} joins; {_reason(request)}")


def _reason(request: JoinGroupRequest) -> str:
    return request.reason or "no reason given"


def _rejoin(machine: GroupMachine, context: JoinContext, group: ClassicGroup) -> Result:
    """A member that changes nothing gets the present generation; anything else starts a rebalance. The leader may
    always start one: its assignment may have changed although no member did."""
    request = context.request
    try:
        group.check_member(request.member_id, request.group_instance_id)
    except ApiError as error:
        return Result(join_error(request.member_id, error.code))
    member = group.members[request.member_id]
    is_leader = group.leader == member.member_id
    unchanged = member.protocols == context.protocols
    if unchanged and group.is_in(ClassicGroupState.COMPLETING_REBALANCE):
        return Result(join_response(group, member.member_id, with_members=is_leader))
    if unchanged and group.is_in(ClassicGroupState.STABLE) and not is_leader:
        return Result(join_response(group, member.member_id))
    if group.is_in(ClassicGroupState.EMPTY, ClassicGroupState.DEAD):
        return Result(join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
    _update_member(machine, context, member)
    return rebalance.prepare_or_complete(machine, group, f"{member.member_id} joins again; {_reason(request)}")


def _update_member(machine: GroupMachine, context: JoinContext, member: ClassicMember) -> None:
    """Store the member's new data. An earlier request of the member that still waits is answered first, because only
    the newest one is kept."""
    machine.reply_join(member, join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
    member.protocols = context.protocols
    member.rebalance_timeout_ms = context.request.rebalance_timeout_ms
    member.session_timeout_ms = context.request.session_timeout_ms
    member.join_token = context.token


def _rejoin_static(machine: GroupMachine, context: JoinContext, group: ClassicGroup, member_id: str) -> Result:
    """A static member returns as a new process (KIP-345)."""
    member = group.members[group.static_members[context.request.group_instance_id or ""]]
    before = replace_static_member(machine, group, member, member_id)
    _update_member(machine, context, member)
    if group.is_in(ClassicGroupState.STABLE):
        if group.protocol == next_protocol(group):
            return keep_generation(machine, group, before, context.version)
        return rebalance.prepare_or_complete(machine, group, f"{member_id} changed the protocol")
    if group.is_in(ClassicGroupState.COMPLETING_REBALANCE):
        return rebalance.prepare(machine, group, f"static member {member_id} came back")
    return rebalance.maybe_complete_join(machine, group)


SKIP_ASSIGNMENT_VERSION = 9
"""From this version of JoinGroup a returning leader can be told not to compute the assignment again (KIP-814)."""


class ReplacedStaticMember(NamedTuple):
    """The state of a static member before a new process replaced it, and the ID of that process."""

    member: ClassicMember
    new_id: str
    member_id: str
    leader: str | None
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: list[MemberProtocol]


def replace_static_member(
    machine: GroupMachine, group: ClassicGroup, member: ClassicMember, member_id: str
) -> ReplacedStaticMember:
    """Fence the old process, and give its membership to the new one under a new ID."""
    before = ReplacedStaticMember(
        member,
        member_id,
        member.member_id,
        group.leader,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.protocols,
    )
    machine.reply_join(member, join_error(member.member_id, ErrorCode.FENCED_INSTANCE_ID))
    machine.reply_sync(member, sync_error(ErrorCode.FENCED_INSTANCE_ID))
    machine.cancel_session(group, member.member_id)
    group.rename_static(member, member_id)
    machine.renew_session(group, member_id, member.session_timeout_ms)
    return before


def next_protocol(group: ClassicGroup) -> str | None:
    """The protocol that the next generation would choose; None if the members have none in common any more."""
    members = group.members.values()
    return choose_protocol(members) if common_protocols(members) else None


def keep_generation(machine: GroupMachine, group: ClassicGroup, before: ReplacedStaticMember, version: int) -> Result:
    """The generation stays. Its record names the new ID, and the member is answered once that is committed."""
    assignments = {member_id: member.assignment for member_id, member in group.members.items()}
    return Result(
        changes=[group_change(group, assignments)],
        on_done=partial(_new_id_written, machine, group, before, version),
    )


def _new_id_written(
    machine: GroupMachine, group: ClassicGroup, before: ReplacedStaticMember, version: int, code: ErrorCode
) -> Result:
    member, member_id = before.member, before.new_id
    if group.members.get(member_id) is not member:
        return Result()
    if code != ErrorCode.NONE:
        if member.join_token is not None:
            _revert(machine, group, before, code)
        return Result()
    is_leader = group.leader == member_id
    if version >= SKIP_ASSIGNMENT_VERSION:
        response = join_response(group, member_id, with_members=is_leader, skip_assignment=is_leader)
    else:
        # If an old client got its own new ID as the leader's, it would compute the assignment again: send the old ID.
        response = join_response(group, member_id, leader=before.leader)
    if not group.is_in(ClassicGroupState.PREPARING_REBALANCE):
        machine.reply_join(member, response)
    return Result()


def _revert(machine: GroupMachine, group: ClassicGroup, before: ReplacedStaticMember, code: ErrorCode) -> None:
    """The new ID is not in the log, so a failover would only know the old one."""
    member = before.member
    response = join_response(group, UNKNOWN_MEMBER, leader=before.leader)
    response.error_code = code
    machine.reply_join(member, response)
    machine.cancel_session(group, member.member_id)
    group.rename_static(member, before.member_id)
    member.rebalance_timeout_ms = before.rebalance_timeout_ms
    member.session_timeout_ms = before.session_timeout_ms
    member.protocols = before.protocols
    machine.renew_session(group, member.member_id, member.session_timeout_ms)
