"""How a member comes from what it has to its target: first it gives up what others are to have, then its epoch rises,
then it gets what nobody has any more. So no partition is ever with two members."""

from collections.abc import Container, Mapping
from typing import NamedTuple

from tidelog.coordinator.group.consumer.member import NOTHING, Current, MemberState
from tidelog.coordinator.group.consumer.topics import Epochs, Place
from tidelog.errors import ApiError, ErrorCode


class Aim(NamedTuple):
    """Where a member is to go: its target, and what bounds it. `owned` is what it says it has, None where it says
    nothing; `owners` has whatever somebody has or is still to give up; `topics` are those it subscribes to."""

    epoch: int
    target: frozenset[Place]
    owned: frozenset[Place] | None
    owners: Mapping[Place, str]
    topics: Container[bytes]

    def still_owns(self, revoking: Epochs) -> bool:
        return self.owned is None or any(place in revoking for place in self.owned)


def reconcile(current: Current, aim: Aim, *, subscription_changed: bool) -> Current:
    """The member's next step, or what it had where there is none yet. ApiError FENCED_MEMBER_EPOCH."""
    if current.state == MemberState.STABLE and current.epoch == aim.epoch:
        return _drop_unsubscribed(current, aim) if subscription_changed else current
    if current.state == MemberState.UNREVOKED_PARTITIONS and aim.still_owns(current.revoking):
        return _drop_unsubscribed(current, aim) if subscription_changed else current
    if current.state == MemberState.UNKNOWN and aim.owned != frozenset():
        text = "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
        raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, text)
    epoch = aim.epoch if current.state == MemberState.UNKNOWN else current.epoch
    return _step(current, aim, epoch)


def _step(current: Current, aim: Aim, epoch: int) -> Current:
    target = {place for place in aim.target if place[0] in aim.topics}
    kept = {place: since for place, since in current.assigned.items() if place in target}
    revoking = {place: since for place, since in current.assigned.items() if place not in target}
    if revoking and aim.still_owns(revoking):
        return current.moved(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    missing = target.difference(kept)
    free = {place for place in missing if place not in aim.owners}
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS
    return current.moved(aim.epoch, state, {**kept, **dict.fromkeys(sorted(free), aim.epoch)}, NOTHING)


def _drop_unsubscribed(current: Current, aim: Aim) -> Current:
    """The member changed its mind before there is a new target: it may keep nothing of other topics."""
    kept = {place: since for place, since in current.assigned.items() if place[0] in aim.topics}
    if len(kept) == len(current.assigned):
        return current
    dropped = {place: since for place, since in current.assigned.items() if place not in kept}
    revoking = {**current.revoking, **dropped}
    if aim.still_owns(revoking):
        return current.moved(current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    return current.moved(current.epoch, current.state, kept, current.revoking)
