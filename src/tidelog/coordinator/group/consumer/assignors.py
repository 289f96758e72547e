"""The server-side assignors, their input and their output. They are deterministic.

`range`: every subscriber of a topic gets a range of its partitions, in the order of the members, so that members with
the same topics get the same numbers of each. Static members come first, because their names are stable.

`uniform`: as even as the subscriptions allow, then as close to the previous assignment as possible. If all members
subscribe to the same topics, each keeps up to its share of its partitions and takes from the free ones. Otherwise free
partitions go to the subscriber with the fewest, topics with the fewest subscribers first; then partitions move as long
as a move reduces the difference between two members.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from itertools import pairwise
from typing import NamedTuple

from tidelog.coordinator.group.consumer.topics import TopicIdPartition


class Subscriber(NamedTuple):
    """`topics` exist; `previous` is the member's previous target, which may contain partitions that it can no longer
    keep."""

    topics: frozenset[bytes]
    previous: frozenset[TopicIdPartition] = frozenset()
    instance_id: str | None = None


class Spec(NamedTuple):
    """`partitions` has the number of partitions of every subscribed topic."""

    members: Mapping[str, Subscriber]
    partitions: Mapping[bytes, int]


Assignment = dict[str, frozenset[TopicIdPartition]]
Assignor = Callable[[Spec], Assignment]
"""The assignment contains every member; every partition that has a subscriber belongs to one member."""


def assign_range(spec: Spec) -> Assignment:
    partitions: dict[str, list[TopicIdPartition]] = {member_id: [] for member_id in spec.members}
    order = sorted(spec.members, key=lambda member_id: _rank(spec, member_id))
    for topic_id, count in spec.partitions.items():
        subscribers = [member_id for member_id in order if topic_id in spec.members[member_id].topics]
        for member_id, numbers in zip(subscribers, _ranges(count, len(subscribers)), strict=True):
            partitions[member_id] += [(topic_id, number) for number in numbers]
    return {member_id: frozenset(given) for member_id, given in partitions.items()}


def _rank(spec: Spec, member_id: str) -> tuple[bool, str]:
    instance_id = spec.members[member_id].instance_id
    return instance_id is None, member_id if instance_id is None else instance_id


def _ranges(count: int, shares: int) -> list[range]:
    """Sizes differ by at most one, the larger ones first."""
    if not shares:
        return []
    size, extra = divmod(count, shares)
    starts = [share * size + min(share, extra) for share in range(shares + 1)]
    return [range(start, end) for start, end in pairwise(starts)]


Holdings = dict[str, set[TopicIdPartition]]


def assign_uniform(spec: Spec) -> Assignment:
    if not spec.members:
        return {}
    holdings = _kept(spec)
    if len({member.topics for member in spec.members.values()}) == 1:
        _even_out(spec, holdings)
    else:
        _fill(spec, holdings)
        _balance(spec, holdings)
    return {member_id: frozenset(partitions) for member_id, partitions in holdings.items()}


def _kept(spec: Spec) -> Holdings:
    """The previous partitions of each member that still exist and that it still subscribes to."""
    return {
        member_id: {
            partition
            for partition in member.previous
            if partition[0] in member.topics and partition[1] < spec.partitions[partition[0]]
        }
        for member_id, member in spec.members.items()
    }


def _unassigned(spec: Spec, holdings: Holdings) -> list[TopicIdPartition]:
    taken = {partition for partitions in holdings.values() for partition in partitions}
    every = ((topic_id, number) for topic_id, count in sorted(spec.partitions.items()) for number in range(count))
    return [partition for partition in every if partition not in taken]


def _even_out(spec: Spec, holdings: Holdings) -> None:
    """All members have the same subscription: members that had most partitions get the one extra partition."""
    quota, extra = divmod(sum(spec.partitions.values()), len(holdings))
    quotas: dict[str, int] = {}
    for rank, member_id in enumerate(sorted(holdings, key=lambda member_id: (-len(holdings[member_id]), member_id))):
        quotas[member_id] = quota + (rank < extra)
        for partition in sorted(holdings[member_id])[quotas[member_id] :]:
            holdings[member_id].remove(partition)
    free = iter(_unassigned(spec, holdings))
    for member_id in sorted(holdings):
        for _ in range(quotas[member_id] - len(holdings[member_id])):
            holdings[member_id].add(next(free))


def _subscribers(spec: Spec) -> dict[bytes, list[str]]:
    return {
        topic_id: sorted(member_id for member_id, member in spec.members.items() if topic_id in member.topics)
        for topic_id in spec.partitions
    }


def _fill(spec: Spec, holdings: Holdings) -> None:
    subscribers = _subscribers(spec)
    free: dict[bytes, list[TopicIdPartition]] = {}
    for partition in _unassigned(spec, holdings):
        free.setdefault(partition[0], []).append(partition)
    for topic_id in sorted(free, key=lambda topic_id: (len(subscribers[topic_id]), topic_id)):
        _hand_out(free[topic_id], subscribers[topic_id], holdings)


def _hand_out(partitions: Iterable[TopicIdPartition], members: list[str], holdings: Holdings) -> None:
    """Each partition goes to the member with the fewest."""
    heap = [(len(holdings[member_id]), member_id) for member_id in members]
    heapify(heap)
    for partition in partitions if heap else ():
        count, member_id = heap[0]
        holdings[member_id].add(partition)
        heapreplace(heap, (count + 1, member_id))


def _balance(spec: Spec, holdings: Holdings) -> None:
    """Topic by topic, until a round over all topics moves nothing. Each move reduces the sum of the squared loads, so
    this terminates."""
    subscribers = _subscribers(spec)
    topics = sorted(spec.partitions, key=lambda topic_id: (len(subscribers[topic_id]), topic_id))
    while sum(_balance_topic(topic_id, subscribers[topic_id], holdings) for topic_id in topics):
        pass


def _balance_topic(topic_id: bytes, members: list[str], holdings: Holdings) -> int:
    """Move the topic's partitions from the member with most to the one with fewest while they differ by two; returns
    the number of moves."""
    owned = {
        member_id: sorted(partition for partition in holdings[member_id] if partition[0] == topic_id)
        for member_id in members
    }
    least = [(len(holdings[member_id]), member_id) for member_id in members]
    most = [(-len(holdings[member_id]), member_id) for member_id in members if owned[member_id]]
    heapify(least)
    heapify(most)
    moved = 0
    while most:
        giver, taker = _heap_top(most, owned, holdings, -1), _heap_top(least, None, holdings, 1)
        if giver is None or taker is None or len(holdings[giver]) - len(holdings[taker]) < 2:
            break
        partition = owned[giver].pop()
        holdings[giver].remove(partition)
        holdings[taker].add(partition)
        owned[taker].append(partition)
        for member_id in (giver, taker):
            heappush(least, (len(holdings[member_id]), member_id))
            heappush(most, (-len(holdings[member_id]), member_id))
        moved += 1
    return moved


def _heap_top(
    heap: list[tuple[int, str]], owned: dict[str, list[TopicIdPartition]] | None, holdings: Holdings, sign: int
) -> str | None:
    """The top of the heap, after dropping entries that are outdated or of members without partitions of the topic."""
    while heap:
        count, member_id = heap[0]
        if count == sign * len(holdings[member_id]) and (owned is None or owned[member_id]):
            return member_id
        heappop(heap)
    return None


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
