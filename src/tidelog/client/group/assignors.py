"""Which member reads which partition: pure functions of the members' subscriptions and the existing partitions.

Members are ordered by instance ID or member ID, so that every leader computes the same result.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle

from tidelog.model import TopicPartition

Assignments = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics of one member, and the partitions it has owned since `generation`."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignor:
    """`is_cooperative`: members keep their partitions while the group rebalances (KIP-429)."""

    name: str
    assign: Callable[[Mapping[str, int], Mapping[str, Subscription]], Assignments]
    is_cooperative: bool = False
    keeps_user_data: bool = field(default=False)
    """Members report what they owned before, even if they gave it up."""


def assign_ranges(partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignments:
    """For each topic separately: consecutive partitions to each member, one more to the first ones."""
    assignments: Assignments = {member: [] for member in members}
    for topic in sorted(partitions):
        readers = [member for member in _ordered(members) if topic in members[member].topics]
        start = 0
        for index, member in enumerate(readers):
            share, rest = divmod(partitions[topic], len(readers))
            end = start + share + (index < rest)
            assignments[member] += [TopicPartition(topic, number) for number in range(start, end)]
            start = end
    return assignments


def assign_round_robin(partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignments:
    """All partitions, one after another, to the members in turn."""
    assignments: Assignments = {member: [] for member in members}
    turn = cycle(_ordered(members))
    for partition in _all_partitions(partitions):
        if any(partition.topic in subscription.topics for subscription in members.values()):
            member = next(member for member in turn if partition.topic in members[member].topics)
            assignments[member].append(partition)
    return assignments


def assign_sticky(partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignments:
    """As balanced as possible, with as few moves as that allows."""
    order = _ordered(members)
    assignments = _retained(partitions, members, order)
    held = {partition for owned in assignments.values() for partition in owned}
    for partition in _all_partitions(partitions):
        if partition not in held:
            readers = [member for member in order if partition.topic in members[member].topics]
            if readers:
                assignments[min(readers, key=lambda member: len(assignments[member]))].append(partition)
    while _move_one(assignments, members, order):
        pass
    return {member: sorted(owned) for member, owned in assignments.items()}


def assign_cooperatively(partitions: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignments:
    """As `assign_sticky`, but a partition that moves is assigned to nobody until its owner gave it up."""
    target = assign_sticky(partitions, members)
    holders: dict[TopicPartition, set[str]] = defaultdict(set)
    for member, subscription in members.items():
        for partition in subscription.owned:
            holders[partition].add(member)
    return {
        member: [partition for partition in assigned if not holders[partition] - {member}]
        for member, assigned in target.items()
    }


def _retained(partitions: Mapping[str, int], members: Mapping[str, Subscription], order: Sequence[str]) -> Assignments:
    """What members own and can keep; if two claim the same partition, the one of the later generation keeps it."""
    claims: dict[TopicPartition, str] = {}
    for member in order:
        subscription = members[member]
        for partition in subscription.owned:
            exists = partition.topic in subscription.topics and partition.partition < partitions.get(partition.topic, 0)
            rival = claims.get(partition)
            if exists and (rival is None or members[rival].generation < subscription.generation):
                claims[partition] = member
    assignments: Assignments = {member: [] for member in order}
    for partition in sorted(claims):
        assignments[claims[partition]].append(partition)
    return assignments


def _move_one(assignments: Assignments, members: Mapping[str, Subscription], order: Sequence[str]) -> bool:
    """Move a partition from a member to one with at least two fewer that subscribes to it, fullest member first."""
    for giver in sorted(order, key=lambda member: -len(assignments[member])):
        for partition in reversed(assignments[giver]):
            takers = [member for member in order if partition.topic in members[member].topics]
            taker = min(takers, key=lambda member: len(assignments[member]))
            if len(assignments[giver]) - len(assignments[taker]) >= 2:
                assignments[giver].remove(partition)
                assignments[taker].append(partition)
                return True
    return False


def _ordered(members: Mapping[str, Subscription]) -> list[str]:
    return sorted(
        members, key=lambda member: (members[member].instance_id is None, members[member].instance_id or member)
    )


def _all_partitions(partitions: Mapping[str, int]) -> Iterable[TopicPartition]:
    for topic in sorted(partitions):
        for number in range(partitions[topic]):
            yield TopicPartition(topic, number)


ASSIGNORS: Mapping[str, Assignor] = {
    assignor.name: assignor
    for assignor in (
        Assignor("range", assign_ranges),
        Assignor("roundrobin", assign_round_robin),
        Assignor("sticky", assign_sticky, keeps_user_data=True),
        Assignor("cooperative-sticky", assign_cooperatively, is_cooperative=True),
    )
}
"""The values of `partition.assignment.strategy`."""


def are_cooperative(names: Collection[str]) -> bool:
    """Whether a member that offers these keeps its partitions while the group rebalances: only if all of them allow
    it."""
    return all(ASSIGNORS[name].is_cooperative for name in names)
