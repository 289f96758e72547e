"""The deadlines of members, and fencing of members that miss one: to send heartbeats, to give up partitions, and for
members of the classic protocol to join and to sync.

If only members of the classic protocol remain, the group becomes a classic group.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.classic import rebalance
from tidelog.coordinator.group.classic.group import ClassicGroupState
from tidelog.coordinator.group.consumer import conversion, subscriptions
from tidelog.coordinator.group.consumer.group import ConsumerGroup, Draft
from tidelog.coordinator.group.consumer.member import ConsumerMember, CurrentAssignment, MemberState
from tidelog.coordinator.group.consumer.records import member_tombstones
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.errors import ErrorCode

RETRY_MS = 500

Key = tuple[str, str, str]


class Deadline(Enum):
    """Each kind has the reason that is reported when a member misses it."""

    SESSION = "consumer-session"
    REVOKE = "consumer-revoke"
    JOIN = "consumer-join"
    SYNC = "consumer-sync"

    @property
    def reason(self) -> str:
        return _REASONS[self]


_REASONS = {
    Deadline.SESSION: "its session is over",
    Deadline.REVOKE: "it did not give up its partitions in time",
    Deadline.JOIN: "it did not join again in time",
    Deadline.SYNC: "it did not sync in time",
}


def deadline_key(deadline: Deadline, group_id: str, member_id: str) -> Key:
    return (deadline.value, group_id, member_id)


def cancel_deadline(machine: GroupMachine, deadline: Deadline, group_id: str, member_id: str) -> None:
    machine.shard.cancel_timer(deadline_key(deadline, group_id, member_id))


def cancel_deadlines(machine: GroupMachine, group_id: str, member_id: str) -> None:
    for deadline in Deadline:
        cancel_deadline(machine, deadline, group_id, member_id)


def fence(machine: GroupMachine, group: ConsumerGroup, members: Sequence[ConsumerMember]) -> Result:
    """The records, without a response. The remaining members learn about it from their heartbeats."""
    if not members:
        return Result()
    removed = {member.member_id for member in members}
    remaining = [member for member in group.members.values() if member.member_id not in removed]
    if conversion.may_downgrade(machine, remaining):
        on_done = partial(group_downgraded, machine, group.group_id, rebalance_now=True)
        return Result(changes=conversion.downgrade(machine, group, remaining, rebalance_now=True), on_done=on_done)
    draft = Draft(group)
    for member in members:
        draft.add(*member_tombstones(group.group_id, member.member_id))
    subscriptions.bump_epoch_after_leave(machine, draft)
    return Result(changes=draft.changes, on_done=partial(_members_removed, machine, group.group_id, removed))


def group_downgraded(machine: GroupMachine, group_id: str, code: ErrorCode, *, rebalance_now: bool) -> Result:
    """The assignments differ from the targets, so the members start a rebalance."""
    del code  # the classic group exists if and only if its record was written, whatever the code
    group = machine.groups.get(group_id)
    if group is None:
        return Result()
    for member_id in group.members:
        cancel_deadlines(machine, group_id, member_id)
    if rebalance_now and group.is_in(ClassicGroupState.STABLE):
        return rebalance.prepare(machine, group, "the last member of the consumer protocol left")
    return Result()


def _members_removed(machine: GroupMachine, group_id: str, member_ids: Iterable[str], code: ErrorCode) -> Result:
    """A member that could not be removed, or that rejoined in the meantime, keeps its deadlines."""
    del code
    group = machine.consumers.newest.get(group_id)
    for member_id in member_ids:
        if group is None or member_id not in group.members:
            cancel_deadlines(machine, group_id, member_id)
    return Result()


def renew_session(machine: GroupMachine, group_id: str, member: ConsumerMember) -> None:
    """The member sent a request. A member of the classic protocol sets its own session timeout."""
    classic = member.subscription.classic
    own_ms = None if classic is None else classic.session_timeout_ms
    timeout_ms = machine.group_config(group_id).consumer_session_timeout_ms if own_ms is None else own_ms
    _set(machine, Deadline.SESSION, group_id, member.member_id, timeout_ms)


def update_revocation_deadline(
    machine: GroupMachine, group_id: str, member: ConsumerMember, current: CurrentAssignment
) -> None:
    """Start the rebalance timeout for giving up partitions, or cancel it if there are none left."""
    if member.is_classic:
        return
    if current.state != MemberState.UNREVOKED_PARTITIONS:
        machine.shard.cancel_timer(deadline_key(Deadline.REVOKE, group_id, member.member_id))
        return
    timeout_ms = member.subscription.rebalance_timeout_ms
    _set(machine, Deadline.REVOKE, group_id, member.member_id, timeout_ms, epoch=current.epoch)


def set_join_deadline(machine: GroupMachine, group_id: str, member: ConsumerMember) -> None:
    """A classic member was told to rejoin."""
    if not machine.shard.has_timer(deadline_key(Deadline.JOIN, group_id, member.member_id)):
        _set(machine, Deadline.JOIN, group_id, member.member_id, member.subscription.rebalance_timeout_ms)


def set_sync_deadline(machine: GroupMachine, group_id: str, member: ConsumerMember) -> None:
    """A classic member has joined."""
    _set(machine, Deadline.SYNC, group_id, member.member_id, member.subscription.rebalance_timeout_ms)


def set_loaded_deadlines(machine: GroupMachine, group: ConsumerGroup) -> None:
    """After a failover each member gets a whole session timeout, and a whole timeout to give up partitions."""
    for member in group.members.values():
        renew_session(machine, group.group_id, member)
        if member.current.state == MemberState.UNREVOKED_PARTITIONS:
            update_revocation_deadline(machine, group.group_id, member, member.current)


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
    machine.shard.set_timer(deadline_key(deadline, group_id, member_id), timeout_ms, run)


def _missed(machine: GroupMachine, deadline: Deadline, group_id: str, member_id: str, epoch: int | None) -> Result:
    """Fence the member, unless it has left the epoch of the deadline. If that cannot be written now it is retried:
    nothing else would notice that the member is gone."""
    group = machine.consumers.newest.get(group_id)
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None or epoch not in (None, member.current.epoch):
        return Result()
    result = fence(machine, group, [member])
    result.on_done = partial(_fenced, machine, deadline, member, group_id, epoch, result.on_done)
    return result


def _fenced(
    machine: GroupMachine,
    deadline: Deadline,
    member: ConsumerMember,
    group_id: str,
    epoch: int | None,
    on_done: Callable[[ErrorCode], Result] | None,
    code: ErrorCode,
) -> Result:
    if code == ErrorCode.NONE:
        fields = {"group": group_id, "member": member.member_id, "reason": deadline.reason}
        machine.shard.event("group.member_fenced", **fields)
    else:
        _set(machine, deadline, group_id, member.member_id, RETRY_MS, epoch=epoch)
    return Result() if on_done is None else on_done(code)
