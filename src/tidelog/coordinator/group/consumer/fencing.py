"""Members that are in the group no more. Where only members of the classic protocol stay, the group becomes a classic
one again."""

from collections.abc import Iterable, Sequence
from functools import partial

from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.consumer import subscriptions, timing
from tidelog.coordinator.group.consumer.draft import Draft
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.member import Member
from tidelog.coordinator.group.consumer.mixed import conversion
from tidelog.coordinator.group.consumer.records import member_tombstones
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.errors import ErrorCode


def fence(machine: GroupMachine, group: ConsumerGroup, members: Sequence[Member]) -> Result:
    """The records without a response. Whoever stays learns of it by a heartbeat."""
    if not members:
        return Result()
    gone = {member.member_id for member in members}
    staying = [member for member in group.members.values() if member.member_id not in gone]
    if conversion.may_downgrade(machine, staying):
        settled = partial(conversion.downgraded, machine, group.group_id, rebalance_now=True)
        return Result(changes=conversion.downgrade(machine, group, staying, rebalance_now=True), settled=settled)
    draft = Draft(group)
    for member in members:
        draft.add(*member_tombstones(group.group_id, member.member_id))
    subscriptions.raise_epoch(machine, draft)
    return Result(changes=draft.changes, settled=partial(_gone, machine, group.group_id, gone))


def _gone(machine: GroupMachine, group_id: str, member_ids: Iterable[str], code: ErrorCode) -> Result:
    """Who could not be removed stays under watch, as does who came back meanwhile."""
    del code
    group = machine.consumers.newest.get(group_id)
    for member_id in member_ids:
        if group is None or member_id not in group.members:
            timing.cancel_all(machine, group_id, member_id)
    return Result()
