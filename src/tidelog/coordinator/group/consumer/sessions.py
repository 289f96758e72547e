"""The deadlines of members: to be heard of, to give up partitions, and for members of the classic protocol to join and
to sync. Who misses one is fenced."""

from functools import partial

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.consumer.fencing import fence
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.member import Current, Member, MemberState
from tidelog.coordinator.group.consumer.settings import settings
from tidelog.coordinator.group.consumer.timing import Deadline, key
from tidelog.coordinator.group.machine import GroupMachine


def watch(machine: GroupMachine, group_id: str, member: Member) -> None:
    """The member was heard of. One of the classic protocol says itself how long it may be silent."""
    classic = member.subscription.classic
    timeout_ms = settings(machine, group_id).session_timeout_ms if classic is None else classic.session_timeout_ms
    _set(machine, Deadline.SESSION, group_id, member.member_id, timeout_ms)


def watch_revocation(machine: GroupMachine, group_id: str, member: Member, current: Current) -> None:
    """Give the member its rebalance timeout to give partitions up, or take note that it did."""
    if member.is_classic:
        return
    if current.state != MemberState.UNREVOKED_PARTITIONS:
        machine.shard.cancel_timer(key(Deadline.REVOKE, group_id, member.member_id))
        return
    run = partial(_revocation_timed_out, machine, group_id, member.member_id, current.epoch)
    timeout_ms = member.subscription.rebalance_timeout_ms
    machine.shard.set_timer(key(Deadline.REVOKE, group_id, member.member_id), timeout_ms, run)


def watch_join(machine: GroupMachine, group_id: str, member: Member) -> None:
    """A classic member was told to join again."""
    if not machine.shard.has_timer(key(Deadline.JOIN, group_id, member.member_id)):
        _set(machine, Deadline.JOIN, group_id, member.member_id, member.subscription.rebalance_timeout_ms)


def watch_sync(machine: GroupMachine, group_id: str, member: Member) -> None:
    """A classic member has joined."""
    _set(machine, Deadline.SYNC, group_id, member.member_id, member.subscription.rebalance_timeout_ms)


def watch_loaded(machine: GroupMachine, group: ConsumerGroup) -> None:
    """After a failover each member has a whole session, and whole time to give up what it must."""
    for member in group.members.values():
        watch(machine, group.group_id, member)
        if member.current.state == MemberState.UNREVOKED_PARTITIONS:
            watch_revocation(machine, group.group_id, member, member.current)


def _set(machine: GroupMachine, deadline: Deadline, group_id: str, member_id: str, timeout_ms: int) -> None:
    run = partial(_timed_out, machine, deadline, group_id, member_id)
    machine.shard.set_timer(key(deadline, group_id, member_id), timeout_ms, run)


def _timed_out(machine: GroupMachine, deadline: Deadline, group_id: str, member_id: str) -> Result:
    return _fence(machine, group_id, member_id, deadline.reason)


def _revocation_timed_out(machine: GroupMachine, group_id: str, member_id: str, epoch: int) -> Result:
    group = machine.consumers.newest.get(group_id)
    member = None if group is None else group.members.get(member_id)
    if member is None or member.current.epoch != epoch:
        return Result()
    return _fence(machine, group_id, member_id, Deadline.REVOKE.reason)


def _fence(machine: GroupMachine, group_id: str, member_id: str, reason: str) -> Result:
    group = machine.consumers.newest.get(group_id)
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None:
        return Result()
    machine.shard.event("group.member_fenced", group=group_id, member=member_id, reason=reason)
    return fence(machine, group, [member])
