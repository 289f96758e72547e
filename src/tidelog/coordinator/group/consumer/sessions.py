"""The deadlines of members: to be heard of, to give up partitions, and for members of the classic protocol to join and
to sync. Who misses one is fenced."""

from collections.abc import Callable
from functools import partial

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.consumer.fencing import fence
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.member import Current, Member, MemberState
from tidelog.coordinator.group.consumer.timing import Deadline, key
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.errors import ErrorCode

RETRY_MS = 500


def watch(machine: GroupMachine, group_id: str, member: Member) -> None:
    """The member was heard of. One of the classic protocol says itself how long it may be silent."""
    classic = member.subscription.classic
    own_ms = None if classic is None else classic.session_timeout_ms
    timeout_ms = machine.group_config(group_id).consumer_session_timeout_ms if own_ms is None else own_ms
    _set(machine, Deadline.SESSION, group_id, member.member_id, timeout_ms)


def watch_revocation(machine: GroupMachine, group_id: str, member: Member, current: Current) -> None:
    """Give the member its rebalance timeout to give partitions up, or take note that it did."""
    if member.is_classic:
        return
    if current.state != MemberState.UNREVOKED_PARTITIONS:
        machine.shard.cancel_timer(key(Deadline.REVOKE, group_id, member.member_id))
        return
    timeout_ms = member.subscription.rebalance_timeout_ms
    _set(machine, Deadline.REVOKE, group_id, member.member_id, timeout_ms, epoch=current.epoch)


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


def _set(
    machine: GroupMachine,
    deadline: Deadline,
    group_id: str,
    member_id: str,
    timeout_ms: int,
    *,
    epoch: int | None = None,
) -> None:
    run = partial(_missed, machine, deadline, group_id, member_id, epoch)
    machine.shard.set_timer(key(deadline, group_id, member_id), timeout_ms, run)


def _missed(machine: GroupMachine, deadline: Deadline, group_id: str, member_id: str, epoch: int | None) -> Result:
    """Fence the member, unless it has left the epoch that the deadline was for. Where that cannot be written now, it is
    tried again: nobody else would notice that the member is gone."""
    group = machine.consumers.newest.get(group_id)
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None or epoch not in (None, member.current.epoch):
        return Result()
    result = fence(machine, group, [member])
    result.settled = partial(_fenced, machine, deadline, member, group_id, epoch, result.settled)
    return result


def _fenced(
    machine: GroupMachine,
    deadline: Deadline,
    member: Member,
    group_id: str,
    epoch: int | None,
    settled: Callable[[ErrorCode], Result] | None,
    code: ErrorCode,
) -> Result:
    if code == ErrorCode.NONE:
        fields = {"group": group_id, "member": member.member_id, "reason": deadline.reason}
        machine.shard.event("group.member_fenced", **fields)
    else:
        _set(machine, deadline, group_id, member.member_id, RETRY_MS, epoch=epoch)
    return Result() if settled is None else settled(code)
