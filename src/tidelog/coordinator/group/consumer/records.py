"""The records of consumer groups: building the `Change` of each kind, and reading its value.

Kafka 4.3 no longer writes partition metadata, but a hash of it (KIP-1101); the old record is only deleted.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tidelog.coordinator.contract import Change
from tidelog.coordinator.group.classic.group import MemberProtocol
from tidelog.coordinator.group.consumer.member import ClassicMetadata, CurrentAssignment, MemberState, Subscription
from tidelog.coordinator.group.consumer.topics import (
    AssignmentEpochs,
    TopicIdPartition,
    partitions_by_topic,
    partitions_from,
    to_messages,
)
from tidelog.wire.messages.groups import group_records as wire

METADATA = wire.ConsumerGroupMetadataKey
PARTITION_METADATA = wire.ConsumerGroupPartitionMetadataKey
MEMBER = wire.ConsumerGroupMemberMetadataKey
TARGET_METADATA = wire.ConsumerGroupTargetAssignmentMetadataKey
TARGET = wire.ConsumerGroupTargetAssignmentMemberKey
CURRENT = wire.ConsumerGroupCurrentMemberAssignmentKey
REGEX = wire.ConsumerGroupRegularExpressionKey

VALUES: dict[type[Any], type[Any]] = {
    METADATA: wire.ConsumerGroupMetadataValue,
    PARTITION_METADATA: wire.ConsumerGroupPartitionMetadataValue,
    MEMBER: wire.ConsumerGroupMemberMetadataValue,
    TARGET_METADATA: wire.ConsumerGroupTargetAssignmentMetadataValue,
    TARGET: wire.ConsumerGroupTargetAssignmentMemberValue,
    CURRENT: wire.ConsumerGroupCurrentMemberAssignmentValue,
    REGEX: wire.ConsumerGroupRegularExpressionValue,
}


class Regex(NamedTuple):
    """The topics that a pattern matched, and the time (wall milliseconds) it was resolved."""

    topics: frozenset[str]
    version: int
    timestamp: int


def group_change(group_id: str, epoch: int, metadata_hash: int) -> Change:
    return Change(
        METADATA(group_id=group_id), wire.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    )


def member_change(group_id: str, member_id: str, subscription: Subscription) -> Change:
    value = wire.ConsumerGroupMemberMetadataValue(
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=sorted(subscription.topics),
        subscribed_topic_regex=subscription.pattern,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        server_assignor=subscription.assignor,
        classic_member_metadata=_classic_value(subscription.classic),
    )
    return Change(MEMBER(group_id=group_id, member_id=member_id), value)


def _classic_value(classic: ClassicMetadata | None) -> wire.ClassicMemberMetadata | None:
    if classic is None:
        return None
    return wire.ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[
            wire.ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols
        ],
    )


def subscription_from(value: wire.ConsumerGroupMemberMetadataValue) -> Subscription:
    classic = value.classic_member_metadata
    return Subscription(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
        pattern=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None if classic is None else _classic_from(classic),
    )


def _classic_from(value: wire.ClassicMemberMetadata) -> ClassicMetadata:
    protocols = tuple(MemberProtocol(protocol.name, protocol.metadata) for protocol in value.supported_protocols)
    return ClassicMetadata(value.session_timeout_ms, protocols)


def target_epoch_change(group_id: str, epoch: int, timestamp: int) -> Change:
    value = wire.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp)
    return Change(TARGET_METADATA(group_id=group_id), value)


def target_change(group_id: str, member_id: str, target: Iterable[TopicIdPartition]) -> Change:
    value = wire.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=to_messages(target, wire.TopicPartition))
    return Change(TARGET(group_id=group_id, member_id=member_id), value)


def target_from(value: wire.ConsumerGroupTargetAssignmentMemberValue) -> frozenset[TopicIdPartition]:
    return partitions_from(value.topic_partitions)


def current_change(group_id: str, member_id: str, current: CurrentAssignment) -> Change:
    value = wire.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        assigned_partitions=_with_epochs(current.assigned),
        partitions_pending_revocation=_with_epochs(current.revoking),
    )
    return Change(CURRENT(group_id=group_id, member_id=member_id), value)


def _with_epochs(epochs: AssignmentEpochs) -> list[wire.TopicPartitions]:
    return [
        wire.TopicPartitions(
            topic_id=topic_id,
            partitions=partitions,
            assignment_epochs=[epochs[topic_id, partition] for partition in partitions],
        )
        for topic_id, partitions in partitions_by_topic(epochs).items()
    ]


def current_from(value: wire.ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    """A state of a newer version becomes UNKNOWN: its member must rejoin."""
    known = value.state in set(MemberState)
    return CurrentAssignment(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if known else MemberState.UNKNOWN,
        assigned=_epochs_from(value.assigned_partitions, value.member_epoch),
        revoking=_epochs_from(value.partitions_pending_revocation, value.member_epoch),
    )


def _epochs_from(topics: Iterable[wire.TopicPartitions], member_epoch: int) -> AssignmentEpochs:
    """Before Kafka 4.3 no epochs were written; the epoch of the member is used."""
    epochs: dict[TopicIdPartition, int] = {}
    for topic in topics:
        given = topic.assignment_epochs or [member_epoch] * len(topic.partitions)
        epochs.update(
            ((topic.topic_id, partition), epoch) for partition, epoch in zip(topic.partitions, given, strict=False)
        )
    return epochs


def regex_change(group_id: str, pattern: str, regex: Regex) -> Change:
    value = wire.ConsumerGroupRegularExpressionValue(
        topics=sorted(regex.topics), version=regex.version, timestamp=regex.timestamp
    )
    return Change(REGEX(group_id=group_id, regular_expression=pattern), value)


def regex_tombstone(group_id: str, pattern: str) -> Change:
    return Change(REGEX(group_id=group_id, regular_expression=pattern), None)


def partition_metadata_tombstone(group_id: str) -> Change:
    return Change(PARTITION_METADATA(group_id=group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[Change]:
    """The member's assignment is deleted before the member."""
    return [Change(key(group_id=group_id, member_id=member_id), None) for key in (CURRENT, TARGET, MEMBER)]


def group_tombstones(group_id: str, member_ids: Iterable[str], patterns: Iterable[str]) -> list[Change]:
    """Every record of the group that may be in the log; the group itself is last."""
    member_ids = list(member_ids)
    return [
        *(Change(CURRENT(group_id=group_id, member_id=member_id), None) for member_id in member_ids),
        *(Change(TARGET(group_id=group_id, member_id=member_id), None) for member_id in member_ids),
        Change(TARGET_METADATA(group_id=group_id), None),
        *(Change(MEMBER(group_id=group_id, member_id=member_id), None) for member_id in member_ids),
        *(regex_tombstone(group_id, pattern) for pattern in patterns),
        partition_metadata_tombstone(group_id),
        Change(METADATA(group_id=group_id), None),
    ]
