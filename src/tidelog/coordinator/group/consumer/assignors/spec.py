"""What an assignor is given, and what it gives."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.coordinator.group.consumer.topic_partitions import Place


class Subscriber(NamedTuple):
    """`topics` exist; `previous` is the member's target so far, which may have what it can no longer keep."""

    topics: frozenset[bytes]
    previous: frozenset[Place] = frozenset()
    instance_id: str | None = None


class Spec(NamedTuple):
    """`partitions` has the number of partitions of every topic that somebody subscribes to."""

    members: Mapping[str, Subscriber]
    partitions: Mapping[bytes, int]


Assignment = dict[str, frozenset[Place]]
Assignor = Callable[[Spec], Assignment]
"""Every member is in what it gives, and every partition that has a subscriber belongs to one of them."""
