"""The three steps of every heartbeat, and of every JoinGroup of a classic member: apply changes, update the target
assignment, and move the member towards it.

A target is computed when the group's epoch rises, but not more often than the assignment interval allows; until then
members keep moving towards the old one.
"""

from tidelog.coordinator.group.consumer import sessions, subscriptions, topics
from tidelog.coordinator.group.consumer.assignors import ASSIGNORS, Spec, Subscriber
from tidelog.coordinator.group.consumer.group import NO_PARTITIONS, ConsumerGroup, Draft
from tidelog.coordinator.group.consumer.member import ConsumerMember, Subscription
from tidelog.coordinator.group.consumer.reconciliation import ReconciliationGoal, reconcile
from tidelog.coordinator.group.consumer.records import current_change, target_change, target_epoch_change
from tidelog.coordinator.group.consumer.topics import TopicIdPartition
from tidelog.coordinator.group.machine import GroupMachine


def advance_member(
    machine: GroupMachine,
    draft: Draft,
    member: ConsumerMember,
    subscription: Subscription,
    owned: frozenset[TopicIdPartition] | None,
) -> ConsumerMember:
    """The member after its request; the records are in the draft."""
    changed = subscriptions.update(machine, draft, member, subscription)
    update_target(machine, draft)
    return reconcile_member(machine, draft, member._replace(subscription=subscription), owned, changed=changed)


def reconcile_member(
    machine: GroupMachine,
    draft: Draft,
    member: ConsumerMember,
    owned: frozenset[TopicIdPartition] | None,
    *,
    changed: bool,
) -> ConsumerMember:
    """Move the member towards its target."""
    group, current = draft.group, member.current
    if not changed and current.is_reconciled(group.target.epoch):
        return member
    goal = ReconciliationGoal(
        group.target.epoch,
        group.targets.get(member.member_id, NO_PARTITIONS),
        owned,
        group.owners,
        topics.ids(machine.cluster, group.topics_of(member)),
    )
    following = reconcile(current, goal, subscription_changed=changed)
    if following != current:
        draft.add(current_change(group.group_id, member.member_id, following))
        sessions.update_revocation_deadline(machine, group.group_id, member, following)
    return member._replace(current=following)


def update_target(machine: GroupMachine, draft: Draft) -> None:
    group = draft.group
    if group.target.epoch >= group.epoch or not _is_time(machine, group):
        return
    name = assignor_name(machine, group)
    for member_id, target in ASSIGNORS[name](_spec(machine, group)).items():
        if target != group.targets.get(member_id):
            draft.add(target_change(group.group_id, member_id, target))
    draft.add(target_epoch_change(group.group_id, group.epoch, machine.wall))
    machine.shard.event(
        "group.assigned", group=group.group_id, epoch=group.epoch, members=len(group.members), assignor=name
    )


def assignor_name(machine: GroupMachine, group: ConsumerGroup) -> str:
    return group.preferred_assignor() or machine.config.group_consumer_assignors[0]


def _is_time(machine: GroupMachine, group: ConsumerGroup) -> bool:
    """A target with a future timestamp was computed before a clock was set back, or by another coordinator."""
    interval_ms = machine.group_config(group.group_id).consumer_assignment_interval_ms
    timestamp = group.target.timestamp
    return not timestamp or not 0 <= machine.wall - timestamp < interval_ms


def _spec(machine: GroupMachine, group: ConsumerGroup) -> Spec:
    cluster = machine.cluster
    members = {
        member_id: Subscriber(
            topics.ids(cluster, group.topics_of(member)),
            group.targets.get(member_id, NO_PARTITIONS),
            member.subscription.instance_id,
        )
        for member_id, member in group.members.items()
    }
    return Spec(members, topics.partition_counts(cluster, group.subscribed_topics()))
