"""What operators are shown of consumer groups."""

from collections.abc import Iterable

from tidelog.coordinator.group.consumer.group import NO_PLACES, ConsumerGroup
from tidelog.coordinator.group.consumer.member import Member
from tidelog.coordinator.group.consumer.targets import assignor_name
from tidelog.coordinator.group.consumer.topic_partitions import Place, grouped
from tidelog.coordinator.group.consumer.topics import Cluster
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups import consumer_group_describe as wire
from tidelog.wire.messages.groups.list_groups import ListedGroup

CONSUMER = "consumer"
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def listed(group: ConsumerGroup) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id, protocol_type=CONSUMER, group_state=group.state.value, group_type=CONSUMER
    )


def describe(machine: GroupMachine, group_ids: Iterable[str]) -> list[wire.DescribedGroup]:
    return [_described(machine, group_id) for group_id in group_ids]


def _described(machine: GroupMachine, group_id: str) -> wire.DescribedGroup:
    group = machine.consumers.committed.get(group_id)
    if group is None:
        classic = machine.groups.get(group_id)
        is_classic = classic is not None and machine.is_visible(classic)
        problem = "is not a consumer group." if is_classic else "not found."
        return refused(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {problem}")
    return wire.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target.epoch,
        assignor_name=assignor_name(machine, group),
        members=[_member(machine.cluster, group, member) for member in group.members.values()],
    )


def refused(group_id: str, code: ErrorCode, text: str | None = None) -> wire.DescribedGroup:
    return wire.DescribedGroup(group_id=group_id, error_code=code, error_message=text)


def _member(cluster: Cluster, group: ConsumerGroup, member: Member) -> wire.Member:
    subscription, current = member.subscription, member.current
    return wire.Member(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=current.epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=sorted(subscription.topics),
        subscribed_topic_regex=subscription.pattern,
        assignment=_assignment(cluster, {*current.assigned, *current.revoking}),
        target_assignment=_assignment(cluster, group.targets.get(member.member_id, NO_PLACES)),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(cluster: Cluster, places: Iterable[Place]) -> wire.Assignment:
    """Topics that are gone are left out."""
    return wire.Assignment(
        topic_partitions=[
            wire.TopicPartitions(topic_id=topic_id, topic_name=cluster.topic_names[topic_id], partitions=partitions)
            for topic_id, partitions in grouped(places).items()
            if topic_id in cluster.topic_names
        ]
    )
