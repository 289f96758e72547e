"""ListGroups, DescribeGroups and ConsumerGroupDescribe."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

from tidelog.coordinator.group.classic.group import ClassicGroup, ClassicGroupState, ClassicMember
from tidelog.coordinator.group.consumer.assignment import assignor_name
from tidelog.coordinator.group.consumer.group import NO_PARTITIONS, ConsumerGroup
from tidelog.coordinator.group.consumer.member import ConsumerMember
from tidelog.coordinator.group.consumer.topics import Cluster, TopicIdPartition, partitions_by_topic
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.errors import ErrorCode
from tidelog.slices import SLICE, Sliced, made_of
from tidelog.wire.messages.groups import consumer_group_describe as wire
from tidelog.wire.messages.groups.group_admin import DescribedGroup, DescribedGroupMember, ListedGroup

CLASSIC = "classic"
NOT_FOUND_VERSION = 6
"""From this version of DescribeGroups an unknown group is an error; before, it is described as dead (KIP-1043)."""


def wanted(names: Iterable[str]) -> frozenset[str]:
    """A filter as it is compared: case-insensitively. It may have thousands of names, and is for all partitions."""
    return frozenset(name.strip().lower() for name in names)


def to_list(machine: GroupMachine, types: Collection[str]) -> list[ClassicGroup | ConsumerGroup]:
    """The groups of any of these types, for `listed`; an empty filter matches all."""
    found: list[ClassicGroup | ConsumerGroup] = []
    if CLASSIC in types or not types:
        found += [group for group in machine.groups.values() if machine.is_visible(group)]
    if CONSUMER in types or not types:
        found += machine.consumers.committed.values()
    return found


def listed(states: Collection[str], group: ClassicGroup | ConsumerGroup) -> ListedGroup | None:
    """None for a group in none of these states."""
    state = group.state.value
    if states and state.lower() not in states:
        return None
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group_id=group.group_id, protocol_type=CONSUMER, group_state=state, group_type=CONSUMER)
    return ListedGroup(
        group_id=group.group_id, protocol_type=group.protocol_type or "", group_state=state, group_type=CLASSIC
    )


def describe_groups(
    machine: GroupMachine, group_ids: Iterable[str], version: int
) -> list[DescribedGroup | Sliced[DescribedGroup]]:
    """Each as it is now; its members are made in slices."""
    return [_described_id(machine, group_id, version) for group_id in group_ids]


def _described_id(machine: GroupMachine, group_id: str, version: int) -> DescribedGroup | Sliced[DescribedGroup]:
    group = machine.groups.get(group_id)
    if group is not None and machine.is_visible(group):
        return _described_classic_group(group)
    dead = DescribedGroup(group_id=group_id, group_state=ClassicGroupState.DEAD.value)
    if version >= NOT_FOUND_VERSION:
        problem = "is not a classic group." if group_id in machine.consumers.committed else "not found."
        dead.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        dead.error_message = f"Group {group_id} {problem}"
    return dead


def _described_classic_group(group: ClassicGroup) -> Sliced[DescribedGroup]:
    """Members' metadata is shown only for a stable group; before that the protocol is not chosen."""
    protocol = group.protocol if group.is_in(ClassicGroupState.STABLE) else None
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
    )
    members = [
        (member, b"" if protocol is None else member.metadata(protocol), member.assignment)
        for member in group.members.values()
    ]
    return _with_members(described, members, _described_member)


def _described_member(shown: tuple[ClassicMember, bytes, bytes]) -> DescribedGroupMember:
    member, metadata, assignment = shown
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=metadata,
        member_assignment=assignment,
    )


def _with_members(group: Any, members: Sequence[Any], describe: Callable[[Any], Any], size: int = SLICE) -> Sliced[Any]:
    group.members = yield from made_of(members, describe, size)
    if len(members) > size // 10:
        yield  # there may be many such groups
    return group


CONSUMER = "consumer"
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
CONSUMER_MEMBERS = 100
"""Members of a slice: each has its topics and two assignments."""


def describe_consumer_groups(
    machine: GroupMachine, group_ids: Iterable[str]
) -> list[wire.DescribedGroup | Sliced[wire.DescribedGroup]]:
    """As `describe_groups`."""
    return [_described_consumer_group(machine, group_id) for group_id in group_ids]


def _described_consumer_group(
    machine: GroupMachine, group_id: str
) -> wire.DescribedGroup | Sliced[wire.DescribedGroup]:
    group = machine.consumers.committed.get(group_id)
    if group is None:
        classic = machine.groups.get(group_id)
        is_classic = classic is not None and machine.is_visible(classic)
        problem = "is not a consumer group." if is_classic else "not found."
        return consumer_group_error(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {problem}")
    described = wire.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target.epoch,
        assignor_name=assignor_name(machine, group),
    )
    members = [(member, group.targets.get(member.member_id, NO_PARTITIONS)) for member in group.members.values()]
    return _with_members(described, members, partial(_described_consumer_member, machine.cluster), CONSUMER_MEMBERS)


def consumer_group_error(group_id: str, code: ErrorCode, text: str | None = None) -> wire.DescribedGroup:
    return wire.DescribedGroup(group_id=group_id, error_code=code, error_message=text)


def _described_consumer_member(
    cluster: Cluster, shown: tuple[ConsumerMember, frozenset[TopicIdPartition]]
) -> wire.Member:
    member, target = shown
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
        target_assignment=_assignment(cluster, target),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(cluster: Cluster, places: Iterable[TopicIdPartition]) -> wire.Assignment:
    """Deleted topics are left out."""
    return wire.Assignment(
        topic_partitions=[
            wire.TopicPartitions(topic_id=topic_id, topic_name=cluster.topic_names[topic_id], partitions=partitions)
            for topic_id, partitions in partitions_by_topic(places).items()
            if topic_id in cluster.topic_names
        ]
    )
