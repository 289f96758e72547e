"""The range assignor: of each topic every subscriber gets a range of partitions, in the order of the members, so that
members with the same topics get the same numbers of each. Static members come first, since their names last."""

from itertools import pairwise

from tidelog.coordinator.group.consumer.assignors.spec import Assignment, Spec
from tidelog.coordinator.group.consumer.topic_partitions import Place


def assign_range(spec: Spec) -> Assignment:
    places: dict[str, list[Place]] = {member_id: [] for member_id in spec.members}
    order = sorted(spec.members, key=lambda member_id: _rank(spec, member_id))
    for topic_id, count in spec.partitions.items():
        subscribers = [member_id for member_id in order if topic_id in spec.members[member_id].topics]
        for member_id, numbers in zip(subscribers, _ranges(count, len(subscribers)), strict=True):
            places[member_id] += [(topic_id, number) for number in numbers]
    return {member_id: frozenset(given) for member_id, given in places.items()}


def _rank(spec: Spec, member_id: str) -> tuple[bool, str]:
    instance_id = spec.members[member_id].instance_id
    return instance_id is None, member_id if instance_id is None else instance_id


def _ranges(count: int, shares: int) -> list[range]:
    """Sizes differ by one at most, the larger ones first."""
    if not shares:
        return []
    size, extra = divmod(count, shares)
    starts = [share * size + min(share, extra) for share in range(shares + 1)]
    return [range(start, end) for start, end in pairwise(starts)]
