"""Consumer groups as their coordinators describe them: classic and KIP-848 groups in one form."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidelog.model import TopicPartition
from tidelog.wire.codec import decode
from tidelog.wire.messages.groups.consumer_protocol import ConsumerProtocolAssignment

CLASSIC_MEMBER = 0


@dataclass(frozen=True, slots=True)
class GroupMember:
    id: str
    host: str
    client_id: str
    instance_id: str | None
    assigned: Sequence[TopicPartition]
    target: Sequence[TopicPartition] | None = None
    epoch: int | None = None
    uses_classic_protocol: bool = False
    """A member that uses the classic protocol in a group of the consumer protocol."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """`epoch` and `target_epoch` are None for classic groups."""

    name: str
    state: str
    assignor: str
    members: Sequence[GroupMember] = field(default=())
    epoch: int | None = None
    target_epoch: int | None = None

    @property
    def is_inactive(self) -> bool:
        return self.state in ("Empty", "Dead")


def classic_group(found: Any) -> GroupState:
    """From a group of DescribeGroups."""
    members = [
        GroupMember(each.member_id, each.client_host, each.client_id, each.group_instance_id, _assigned(each))
        for each in found.members
    ]
    return GroupState(found.group_id, found.group_state, found.protocol_data, members)


def _assigned(member: Any) -> list[TopicPartition]:
    """The assignment of a classic member; empty if it is not a consumer assignment."""
    content = bytes(member.member_assignment)
    if len(content) < 2:
        return []
    version = min(int.from_bytes(content[:2]), 3)
    assignment = decode(ConsumerProtocolAssignment, version, memoryview(content)[2:])
    return sorted(
        TopicPartition(topic.topic, partition)
        for topic in assignment.assigned_partitions
        for partition in topic.partitions
    )


def consumer_group(found: Any) -> GroupState:
    """From a group of ConsumerGroupDescribe."""
    members = [
        GroupMember(
            each.member_id,
            each.client_host,
            each.client_id,
            each.instance_id,
            _partitions_in(each.assignment),
            _partitions_in(each.target_assignment),
            each.member_epoch,
            each.member_type == CLASSIC_MEMBER,
        )
        for each in found.members
    ]
    return GroupState(
        found.group_id, found.group_state, found.assignor_name, members, found.group_epoch, found.assignment_epoch
    )


def _partitions_in(assignment: Any) -> list[TopicPartition]:
    return sorted(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )
