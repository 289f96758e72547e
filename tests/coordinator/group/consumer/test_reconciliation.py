"""One step of a member towards its target."""

import pytest

from tidelog.coordinator.group.consumer.member import CurrentAssignment, MemberState
from tidelog.coordinator.group.consumer.reconciliation import ReconciliationGoal, reconcile
from tidelog.errors import ApiError, ErrorCode

T, U = b"t" * 16, b"u" * 16
STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS


def of(topic, *numbers):
    return {(topic, number) for number in numbers}


def since(epoch, *numbers, topic=T):
    return dict.fromkeys(sorted(of(topic, *numbers)), epoch)


def aim(epoch, target, owned=None, *, others=(), topics=(T, U)):
    owners = dict.fromkeys(of(T, *others), "other")
    return ReconciliationGoal(epoch, frozenset(target), None if owned is None else frozenset(owned), owners, topics)


STEPS = {
    "what is reconciled stays": (
        CurrentAssignment(3, 2, STABLE, since(3, 0)),
        aim(3, of(T, 0)),
        CurrentAssignment(3, 2, STABLE, since(3, 0)),
    ),
    "a new epoch alone is taken over": (
        CurrentAssignment(3, 2, STABLE, since(2, 0)),
        aim(4, of(T, 0)),
        CurrentAssignment(4, 3, STABLE, since(2, 0)),
    ),
    "free partitions are given at once": (
        CurrentAssignment(3, 2, STABLE, since(3, 0)),
        aim(4, of(T, 0, 1)),
        CurrentAssignment(4, 3, STABLE, since(3, 0) | since(4, 1)),
    ),
    "what others have is waited for": (
        CurrentAssignment(3, 2, STABLE, since(3, 0)),
        aim(4, of(T, 0, 1, 2), others=(2,)),
        CurrentAssignment(4, 3, UNRELEASED, since(3, 0) | since(4, 1)),
    ),
    "what was waited for is given when it is free": (
        CurrentAssignment(4, 3, UNRELEASED, since(3, 0)),
        aim(4, of(T, 0, 1)),
        CurrentAssignment(4, 3, STABLE, since(3, 0) | since(4, 1)),
    ),
    "it is waited on": (
        CurrentAssignment(4, 3, UNRELEASED, since(3, 0)),
        aim(4, of(T, 0, 1), others=(1,)),
        CurrentAssignment(4, 3, UNRELEASED, since(3, 0)),
    ),
    "what others are to have is to be given up, in the old epoch": (
        CurrentAssignment(3, 2, STABLE, since(3, 0, 1)),
        aim(4, of(T, 0, 2)),
        CurrentAssignment(3, 2, UNREVOKED, since(3, 0), since(3, 1)),
    ),
    "what the member does not have it need not give up": (
        CurrentAssignment(3, 2, STABLE, since(3, 0, 1)),
        aim(4, of(T, 0), owned=of(T, 0)),
        CurrentAssignment(4, 3, STABLE, since(3, 0)),
    ),
    "silence is no proof of it": (
        CurrentAssignment(3, 2, UNREVOKED, since(3, 0), since(3, 1)),
        aim(4, of(T, 0)),
        CurrentAssignment(3, 2, UNREVOKED, since(3, 0), since(3, 1)),
    ),
    "nor is having it": (
        CurrentAssignment(3, 2, UNREVOKED, since(3, 0), since(3, 1)),
        aim(4, of(T, 0), owned=of(T, 0, 1)),
        CurrentAssignment(3, 2, UNREVOKED, since(3, 0), since(3, 1)),
    ),
    "having given up leads to the newest target": (
        CurrentAssignment(3, 2, UNREVOKED, since(3, 0), since(3, 1)),
        aim(6, of(T, 0, 2), owned=of(T, 0)),
        CurrentAssignment(6, 3, STABLE, since(3, 0) | since(6, 2)),
    ),
    "which may want more": (
        CurrentAssignment(3, 2, UNREVOKED, since(3, 0, 2), since(3, 1)),
        aim(6, of(T, 0), owned=of(T, 0, 2)),
        CurrentAssignment(3, 2, UNREVOKED, since(3, 0), since(3, 2)),
    ),
    "a target of topics that the member has dropped counts for nothing": (
        CurrentAssignment(3, 2, STABLE, since(3, 0)),
        aim(4, of(T, 0) | of(U, 0), topics=(T,)),
        CurrentAssignment(4, 3, STABLE, since(3, 0)),
    ),
    "who knows no epoch begins at the target's": (
        CurrentAssignment(3, 2, MemberState.UNKNOWN),
        aim(6, of(T, 0), owned=()),
        CurrentAssignment(6, 3, STABLE, since(6, 0)),
    ),
}


@pytest.mark.parametrize(("current", "aim", "expected"), STEPS.values(), ids=STEPS)
def test_a_step(current, aim, expected):
    assert reconcile(current, aim, subscription_changed=False) == expected


CHANGES = {
    "nothing was dropped": (
        CurrentAssignment(3, 2, STABLE, since(3, 0)),
        aim(3, of(T, 0), topics=(T,)),
        CurrentAssignment(3, 2, STABLE, since(3, 0)),
    ),
    "a topic was dropped that the member still has": (
        CurrentAssignment(3, 2, STABLE, since(3, 0) | since(3, 0, topic=U)),
        aim(3, of(T, 0) | of(U, 0), topics=(T,)),
        CurrentAssignment(3, 2, UNREVOKED, since(3, 0), since(3, 0, topic=U)),
    ),
    "a topic was dropped that the member has given up": (
        CurrentAssignment(3, 2, STABLE, since(3, 0) | since(3, 0, topic=U)),
        aim(3, of(T, 0) | of(U, 0), owned=of(T, 0), topics=(T,)),
        CurrentAssignment(3, 2, STABLE, since(3, 0)),
    ),
    "a topic was dropped while others are given up": (
        CurrentAssignment(3, 2, UNREVOKED, since(3, 0, topic=U), since(3, 1)),
        aim(4, of(U, 0), topics=(T,)),
        CurrentAssignment(3, 2, UNREVOKED, {}, since(3, 1) | since(3, 0, topic=U)),
    ),
}


@pytest.mark.parametrize(("current", "aim", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_changed_subscription_takes_away_before_there_is_a_new_target(current, aim, expected):
    assert reconcile(current, aim, subscription_changed=True) == expected


def test_who_is_in_a_state_that_is_not_known_begins_anew():
    with pytest.raises(ApiError) as error:
        reconcile(
            CurrentAssignment(3, 2, MemberState.UNKNOWN), aim(4, of(T, 0), owned=of(T, 0)), subscription_changed=False
        )
    assert error.value.code == ErrorCode.FENCED_MEMBER_EPOCH
