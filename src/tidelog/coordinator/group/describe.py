"""ListGroups and DescribeGroups: what operators are shown."""

from collections.abc import Iterable

from tidelog.coordinator.group.consumer import describe
from tidelog.coordinator.group.group import Group
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.state import GroupState
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.describe_groups import DescribedGroup, DescribedGroupMember
from tidelog.wire.messages.groups.list_groups import ListedGroup

CLASSIC = "classic"
NOT_FOUND_VERSION = 6
"""From this version of DescribeGroups on an unknown group is an error; before, it is a dead one (KIP-1043)."""


def list_groups(machine: GroupMachine, states: Iterable[str], types: Iterable[str]) -> list[ListedGroup]:
    """Groups in any of the states and of any of the types, by their names without regard to case; none means all."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.strip().lower() for kind in types} or {CLASSIC, describe.CONSUMER}
    found: list[ListedGroup] = []
    if CLASSIC in wanted_types:
        found += [_listed(group) for group in machine.groups.values() if machine.is_visible(group)]
    if describe.CONSUMER in wanted_types:
        found += [describe.listed(group) for group in machine.consumers.committed.values()]
    return [group for group in found if not wanted_states or group.group_state.lower() in wanted_states]


def _listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=CLASSIC,
    )


def describe_groups(machine: GroupMachine, group_ids: Iterable[str], version: int) -> list[DescribedGroup]:
    return [_described_id(machine, group_id, version) for group_id in group_ids]


def _described_id(machine: GroupMachine, group_id: str, version: int) -> DescribedGroup:
    group = machine.groups.get(group_id)
    if group is not None and machine.is_visible(group):
        return _described(group)
    dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if version >= NOT_FOUND_VERSION:
        problem = "is not a classic group." if group_id in machine.consumers.committed else "not found."
        dead.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        dead.error_message = f"Group {group_id} {problem}"
    return dead


def _described(group: Group) -> DescribedGroup:
    """What members said of themselves is shown for a stable group only; before, nothing is agreed on."""
    protocol = group.protocol if group.is_in(GroupState.STABLE) else None
    members = [
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=b"" if protocol is None else member.metadata(protocol),
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=members,
    )
