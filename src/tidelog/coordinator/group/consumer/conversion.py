"""Converting a classic group to a consumer group with its first member of the consumer protocol, and back when the last
of these leaves. One batch deletes the old records and writes the new ones (KIP-848)."""

from collections.abc import Iterable, Sequence

from tidelog.coordinator.contract import Change
from tidelog.coordinator.group import records
from tidelog.coordinator.group.classic.group import (
    CONSUMER,
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
    choose_protocol,
)
from tidelog.coordinator.group.consumer import embedded, topics
from tidelog.coordinator.group.consumer.group import NO_PARTITIONS, ConsumerGroup
from tidelog.coordinator.group.consumer.member import ClassicMetadata, ConsumerMember, CurrentAssignment, Subscription
from tidelog.coordinator.group.consumer.records import (
    current_change,
    group_change,
    group_tombstones,
    member_change,
    target_change,
    target_epoch_change,
)
from tidelog.coordinator.group.consumer.topics import TopicIdPartition
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.errors import ApiError, ErrorCode

UPGRADES = frozenset({"upgrade", "bidirectional"})
DOWNGRADES = frozenset({"downgrade", "bidirectional"})
UNKNOWN = 0
"""As a fingerprint of topics: differs from that of any topics."""


def policy(machine: GroupMachine) -> str:
    return machine.config.group_consumer_migration_policy.lower()


def consumer_group(machine: GroupMachine, group_id: str) -> ConsumerGroup:
    """Raises ApiError GROUP_ID_NOT_FOUND if there is none, or a classic one."""
    group = machine.consumers.newest.get(group_id)
    if group is None:
        problem = "is not a consumer group." if group_id in machine.groups else "not found."
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {problem}")
    return group


# From the classic protocol.


def check_upgrade(machine: GroupMachine, group: ClassicGroup) -> None:
    """Raises ApiError GROUP_ID_NOT_FOUND; clients that must wait for an upgrade also get this code."""
    problem = None
    if policy(machine) not in UPGRADES:
        problem = "online upgrade is disabled."
    elif group.protocol_type != CONSUMER:
        problem = "the group does not use the consumer embedded protocol."
    elif len(group.members) > machine.config.group_consumer_max_size:
        problem = "the group size exceeds the consumer group maximum size."
    if problem is not None:
        raise _no_upgrade(group, problem)


def _no_upgrade(group: ClassicGroup, problem: str) -> ApiError:
    text = f"Cannot upgrade classic group {group.group_id} to consumer group because {problem}"
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def upgrade(machine: GroupMachine, group: ClassicGroup) -> list[Change]:
    """Deletes the classic group and writes the consumer group: every member keeps its last assignment, and the
    generation becomes the epoch. A group in a rebalance does not complete it, so its first heartbeat must raise the
    epoch even if it changes no subscription, for example that of a process that replaces a static member. Raises
    ApiError GROUP_ID_NOT_FOUND if a member's metadata cannot be parsed."""
    members = [_upgraded(machine, group, member) for member in group.members.values()]
    group_id = group.group_id
    names = {name for member in members for name in member.subscription.topics}
    is_stable = group.is_in(ClassicGroupState.STABLE)
    return [
        records.group_tombstone(group_id),
        *(member_change(group_id, member.member_id, member.subscription) for member in members),
        group_change(group_id, group.generation, topics.fingerprint(machine.cluster, names) if is_stable else UNKNOWN),
        *(target_change(group_id, member.member_id, member.current.assigned) for member in members),
        target_epoch_change(group_id, group.generation, 0),
        *(current_change(group_id, member.member_id, member.current) for member in members),
    ]


def _upgraded(machine: GroupMachine, group: ClassicGroup, member: ClassicMember) -> ConsumerMember:
    chosen = [protocol.metadata for protocol in member.protocols if protocol.name == group.protocol]
    metadata = chosen[0] if chosen else member.protocols[0].metadata
    subscription = embedded.read_subscription(metadata)
    assignment = embedded.read_assignment(member.assignment)
    if subscription is None or assignment is None:
        raise _no_upgrade(group, "the embedded consumer protocol is malformed.")
    if assignment.user_data:
        advice = "Please refer to the documentation or switch to a default assignor before re-attempting the upgrade."
        raise _no_upgrade(group, f"an unsupported custom assignor is in use. {advice}")
    epoch = group.generation
    assigned = embedded.known_partitions(machine.cluster, assignment.assigned_partitions)
    return ConsumerMember(
        member.member_id,
        Subscription(
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=frozenset(subscription.topics),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMetadata(member.session_timeout_ms, tuple(member.protocols)),
        ),
        CurrentAssignment(epoch, epoch, assigned=dict.fromkeys(sorted(assigned), epoch)),
    )


# Back to the classic protocol.


def may_downgrade(machine: GroupMachine, remaining: Sequence[ConsumerMember]) -> bool:
    """Whether a group with these members becomes a classic group."""
    return (
        bool(remaining)
        and all(member.is_classic for member in remaining)
        and policy(machine) in DOWNGRADES
        and len(remaining) <= machine.config.group_max_size
    )


def downgrade(
    machine: GroupMachine, group: ConsumerGroup, remaining: Iterable[ConsumerMember], *, rebalance_now: bool
) -> list[Change]:
    """Deletes the consumer group and writes the classic group: stable, each member with its target. If a rebalance must
    follow it has no leader, so that the rebalance also starts after a failover."""
    classic = ClassicGroup(group.group_id, machine.wall)
    assignments: dict[str, bytes] = {}
    classic.protocol_type, classic.generation, classic.state = CONSUMER, group.epoch, ClassicGroupState.STABLE
    for member in remaining:
        classic.add(_downgraded(member))
    classic.protocol = choose_protocol(classic.members.values())
    for classic_member in classic.members.values():
        version = embedded.protocol_version(classic_member.metadata(classic.protocol))
        target: frozenset[TopicIdPartition] = group.targets.get(classic_member.member_id, NO_PARTITIONS)
        assignments[classic_member.member_id] = embedded.write_assignment(machine.cluster, target, version)
    if rebalance_now:
        classic.leader = None
    tombstones = group_tombstones(group.group_id, group.members, group.regexes)
    return [*tombstones, records.group_change(classic, assignments)]


def _downgraded(member: ConsumerMember) -> ClassicMember:
    subscription = member.subscription
    assert subscription.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        session_timeout_ms=subscription.classic.session_timeout_ms,
        protocol_type=CONSUMER,
        protocols=list(subscription.classic.protocols),
    )
