"""Requests of classic members, answered by the kind of group that theirs is."""

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.consumer.mixed import classic_members
from tidelog.coordinator.group.deletion import group_tombstones
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.membership import heartbeat as classic_heartbeat
from tidelog.coordinator.group.membership import join as classic_join
from tidelog.coordinator.group.membership import leave as classic_leave
from tidelog.coordinator.group.membership import sync as classic_sync
from tidelog.wire.messages.groups.heartbeat import HeartbeatRequest
from tidelog.wire.messages.groups.leave_group import LeaveGroupRequest
from tidelog.wire.messages.groups.sync_group import SyncGroupRequest


def join(machine: GroupMachine, joining: classic_join.Joining) -> Result:
    """A consumer group that nobody is in any more becomes a classic one."""
    group = machine.consumers.newest.get(joining.request.group_id)
    if group is None:
        return classic_join.join(machine, joining)
    if group.members:
        return classic_members.join(machine, group, joining)
    result = classic_join.join(machine, joining)
    if result.changes:
        result.changes = [*group_tombstones(group), *result.changes]
    return result


def sync(machine: GroupMachine, request: SyncGroupRequest, token: int) -> Result:
    group = machine.consumers.newest.get(request.group_id)
    if group is None:
        return classic_sync.sync(machine, request, token)
    return classic_members.sync(machine, group, request)


def heartbeat(machine: GroupMachine, request: HeartbeatRequest) -> Result:
    group = machine.consumers.newest.get(request.group_id)
    if group is None:
        return classic_heartbeat.heartbeat(machine, request)
    return classic_members.heartbeat(machine, group, request)


def leave(machine: GroupMachine, request: LeaveGroupRequest) -> Result:
    group = machine.consumers.newest.get(request.group_id)
    if group is None:
        return classic_leave.leave(machine, request)
    return classic_members.leave(machine, group, request)
