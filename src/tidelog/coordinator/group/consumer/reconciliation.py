"""How a member moves from its assignment to its target: it first gives up the partitions of others, then its epoch
rises, then it gets partitions that no member owns any more. A partition therefore never has two owners."""

from collections.abc import Container, Mapping
from typing import NamedTuple

from tidelog.coordinator.group.consumer.member import NO_ASSIGNMENT, CurrentAssignment, MemberState
from tidelog.coordinator.group.consumer.topics import AssignmentEpochs, TopicIdPartition
from tidelog.errors import ApiError, ErrorCode


class ReconciliationGoal(NamedTuple):
    """The target of a member and its limits. `owned` are the partitions that the member reports, None if it reports
    none; `owners` are all partitions that are assigned or still have to be revoked; `topics` are those that the member
    subscribes to."""

    epoch: int
    target: frozenset[TopicIdPartition]
    owned: frozenset[TopicIdPartition] | None
    owners: Mapping[TopicIdPartition, str]
    topics: Container[bytes]

    def still_owns(self, revoking: AssignmentEpochs) -> bool:
        return self.owned is None or any(partition in revoking for partition in self.owned)


def reconcile(current: CurrentAssignment, goal: ReconciliationGoal, *, subscription_changed: bool) -> CurrentAssignment:
    """The next state of the member, or the present one if there is no step yet. Raises ApiError FENCED_MEMBER_EPOCH."""
    if current.state == MemberState.STABLE and current.epoch == goal.epoch:
        return _drop_unsubscribed(current, goal) if subscription_changed else current
    if current.state == MemberState.UNREVOKED_PARTITIONS and goal.still_owns(current.revoking):
        return _drop_unsubscribed(current, goal) if subscription_changed else current
    if current.state == MemberState.UNKNOWN and goal.owned != frozenset():
        text = "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
        raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, text)
    epoch = goal.epoch if current.state == MemberState.UNKNOWN else current.epoch
    return _step(current, goal, epoch)


def _step(current: CurrentAssignment, goal: ReconciliationGoal, epoch: int) -> CurrentAssignment:
    target = {partition for partition in goal.target if partition[0] in goal.topics}
    kept = {partition: since for partition, since in current.assigned.items() if partition in target}
    revoking = {partition: since for partition, since in current.assigned.items() if partition not in target}
    if revoking and goal.still_owns(revoking):
        return current.moved(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    missing = target.difference(kept)
    free = {partition for partition in missing if partition not in goal.owners}
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS
    return current.moved(goal.epoch, state, {**kept, **dict.fromkeys(sorted(free), goal.epoch)}, NO_ASSIGNMENT)


def _drop_unsubscribed(current: CurrentAssignment, goal: ReconciliationGoal) -> CurrentAssignment:
    """The member changed its subscription before there is a new target: it must give up partitions of other topics."""
    kept = {partition: since for partition, since in current.assigned.items() if partition[0] in goal.topics}
    if len(kept) == len(current.assigned):
        return current
    dropped = {partition: since for partition, since in current.assigned.items() if partition not in kept}
    revoking = {**current.revoking, **dropped}
    if goal.still_owns(revoking):
        return current.moved(current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    return current.moved(current.epoch, current.state, kept, current.revoking)
