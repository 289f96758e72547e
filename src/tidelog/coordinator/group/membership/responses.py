"""The answers that members wait for."""

from tidelog.coordinator.group.group import Group
from tidelog.coordinator.group.member import Member
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.join_group import JoinGroupResponse, JoinGroupResponseMember
from tidelog.wire.messages.groups.sync_group import SyncGroupResponse

UNKNOWN_MEMBER = ""
"""The id of a member that has none yet."""


def join_error(member_id: str, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(member_id=member_id, error_code=code, protocol_name=None)


def joined(
    group: Group,
    member_id: str,
    *,
    leader: str | None = None,
    with_members: bool = False,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The current generation. Only who computes the assignment is told of the members."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=_members(group) if with_members else [],
    )


def _members(group: Group) -> list[JoinGroupResponseMember]:
    assert group.protocol is not None
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in group.members.values()
    ]


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


def assigned(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
