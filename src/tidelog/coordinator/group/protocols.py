"""Arithmetic on what members support: choosing an assignor, reading which topics a consumer subscribes to."""

import struct
from collections.abc import Iterable

from tidelog.coordinator.group.member import Member

CONSUMER = "consumer"
"""The protocol type whose metadata the coordinator can read."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def common(members: Iterable[Member]) -> set[str]:
    """The protocols that every member supports; none where there are no members."""
    supported = [set(member.names()) for member in members]
    return set.intersection(*supported) if supported else set()


def choose(members: Iterable[Member]) -> str:
    """The protocol with the most votes: each member votes for the first of its own that all support."""
    members = list(members)
    candidates = common(members)
    votes: dict[str, int] = {}
    for member in members:
        vote = next(name for name in member.names() if name in candidates)
        votes[vote] = votes.get(vote, 0) + 1
    return max(votes, key=votes.__getitem__)


def subscribed_topics(protocol_type: str | None, protocol: str | None, members: Iterable[Member]) -> set[str] | None:
    """The topics that members of a consumer group subscribe to; None where that cannot be known."""
    members = list(members)
    if protocol_type != CONSUMER:
        return None
    if not members:
        return set()
    if protocol is None:
        return None
    topics: set[str] = set()
    for member in members:
        found = read_topics(member.metadata(protocol))
        if found is None:
            return None
        topics |= found
    return topics


def read_topics(metadata: bytes) -> set[str] | None:
    """The topics of a ConsumerProtocolSubscription, which come first in all its versions; None if it is none."""
    topics: set[str] = set()
    try:
        if _INT16.unpack_from(metadata)[0] < 0:
            return None
        position = 6
        for _ in range(_INT32.unpack_from(metadata, 2)[0]):
            end = position + 2 + _INT16.unpack_from(metadata, position)[0]
            if not position + 2 <= end <= len(metadata):
                return None
            topics.add(metadata[position + 2 : end].decode())
            position = end
    except (ValueError, struct.error):
        return None
    return topics
