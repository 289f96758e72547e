"""The three steps of every heartbeat, and of every JoinGroup of a classic member: what changed, the target, the way."""

from tidelog.coordinator.group.consumer import sessions, subscriptions, targets, topics
from tidelog.coordinator.group.consumer.draft import Draft
from tidelog.coordinator.group.consumer.group import NO_PLACES
from tidelog.coordinator.group.consumer.member import Member, Subscription
from tidelog.coordinator.group.consumer.reconciliation import Aim, reconcile
from tidelog.coordinator.group.consumer.records import current_change
from tidelog.coordinator.group.consumer.topic_partitions import Place
from tidelog.coordinator.group.machine import GroupMachine


def advance(
    machine: GroupMachine,
    draft: Draft,
    member: Member,
    subscription: Subscription,
    owned: frozenset[Place] | None,
) -> Member:
    """The member as it is after its request, whose records are in the draft."""
    changed = subscriptions.update(machine, draft, member, subscription)
    targets.update(machine, draft)
    return step(machine, draft, member._replace(subscription=subscription), owned, changed=changed)


def step(
    machine: GroupMachine, draft: Draft, member: Member, owned: frozenset[Place] | None, *, changed: bool
) -> Member:
    """Move the member towards its target."""
    group, current = draft.group, member.current
    if not changed and current.is_reconciled(group.target.epoch):
        return member
    aim = Aim(
        group.target.epoch,
        group.targets.get(member.member_id, NO_PLACES),
        owned,
        group.owners,
        topics.ids(machine.cluster, group.topics_of(member)),
    )
    following = reconcile(current, aim, subscription_changed=changed)
    if following != current:
        draft.add(current_change(group.group_id, member.member_id, following))
        sessions.watch_revocation(machine, group.group_id, member, following)
    return member._replace(current=following)
