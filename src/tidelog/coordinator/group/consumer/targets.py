"""The target assignment: computed anew when the group's epoch rose, though not more often than the assignment interval
allows; until then members go on towards the old one."""

from tidelog.coordinator.group.consumer import topics
from tidelog.coordinator.group.consumer.assignors import ASSIGNORS
from tidelog.coordinator.group.consumer.assignors.spec import Spec, Subscriber
from tidelog.coordinator.group.consumer.draft import Draft
from tidelog.coordinator.group.consumer.group import NO_PLACES, ConsumerGroup
from tidelog.coordinator.group.consumer.records import target_change, target_epoch_change
from tidelog.coordinator.group.machine import GroupMachine


def update(machine: GroupMachine, draft: Draft) -> None:
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
    """A target from the future was computed by a clock that has been set back, or is another coordinator's."""
    interval_ms = machine.group_config(group.group_id).consumer_assignment_interval_ms
    timestamp = group.target.timestamp
    return not timestamp or not 0 <= machine.wall - timestamp < interval_ms


def _spec(machine: GroupMachine, group: ConsumerGroup) -> Spec:
    cluster = machine.cluster
    members = {
        member_id: Subscriber(
            topics.ids(cluster, group.topics_of(member)),
            group.targets.get(member_id, NO_PLACES),
            member.subscription.instance_id,
        )
        for member_id, member in group.members.items()
    }
    return Spec(members, topics.partition_counts(cluster, group.subscribed_topics()))
