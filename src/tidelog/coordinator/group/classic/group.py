"""A classic group: its states, members, protocols and generation, and the responses to its members.

    Empty ──join──▶ PreparingRebalance ──all joined──▶ CompletingRebalance ──leader's assignment committed──▶ Stable
      ▲                  │      ▲                             │                                                  │
      └──nobody left─────┘      └─────────a member joins, leaves or fails────────────────────────────────────────┘

A group is Dead after its removal, or after its coordinator moved; no state follows. This file has the rules about the
group itself; `join`, `rebalance` and `sessions` have the effects of requests on it.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.messages.groups.classic_group import JoinGroupResponse, JoinGroupResponseMember, SyncGroupResponse


class ClassicGroupState(Enum):
    """Values are the names in Kafka's responses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


PREVIOUS_STATES = {
    ClassicGroupState.EMPTY: {ClassicGroupState.PREPARING_REBALANCE},
    ClassicGroupState.PREPARING_REBALANCE: {
        ClassicGroupState.EMPTY,
        ClassicGroupState.COMPLETING_REBALANCE,
        ClassicGroupState.STABLE,
    },
    ClassicGroupState.COMPLETING_REBALANCE: {ClassicGroupState.PREPARING_REBALANCE},
    ClassicGroupState.STABLE: {ClassicGroupState.COMPLETING_REBALANCE},
    ClassicGroupState.DEAD: set(ClassicGroupState) - {ClassicGroupState.DEAD},
}
"""State → the states that it may follow."""

REBALANCING = frozenset({ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.COMPLETING_REBALANCE})
WITH_MEMBERS = REBALANCING | {ClassicGroupState.STABLE}


NO_ASSIGNMENT = b""


class MemberProtocol(NamedTuple):
    """An assignor that a member supports, and its metadata for the group's leader."""

    name: str
    metadata: bytes


@dataclass(slots=True)
class ClassicMember:
    """`join_token` and `sync_token` belong to requests that wait for the group; only a failover may lose them. A new
    member does not know its ID yet, so its session can expire even while it waits."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: list[MemberProtocol]
    assignment: bytes = NO_ASSIGNMENT
    join_token: int | None = field(default=None, compare=False)
    sync_token: int | None = field(default=None, compare=False)
    is_new: bool = field(default=False, compare=False)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def can_expire(self) -> bool:
        """Whether a missing heartbeat ends the session: a member that waits for the group's response cannot send
        heartbeats."""
        return self.is_new or (self.join_token is None and self.sync_token is None)

    def metadata(self, protocol: str) -> bytes:
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def names(self) -> Iterable[str]:
        return (protocol.name for protocol in self.protocols)


CONSUMER = "consumer"
"""The protocol type whose metadata the coordinator can parse."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def common_protocols(members: Iterable[ClassicMember]) -> set[str]:
    """The protocols that every member supports; none if there are no members."""
    supported = [set(member.names()) for member in members]
    return set.intersection(*supported) if supported else set()


def choose_protocol(members: Iterable[ClassicMember]) -> str:
    """The protocol with the most votes: each member votes for the first of its own protocols that all support."""
    members = list(members)
    candidates = common_protocols(members)
    votes: dict[str, int] = {}
    for member in members:
        vote = next(name for name in member.names() if name in candidates)
        votes[vote] = votes.get(vote, 0) + 1
    return max(votes, key=votes.__getitem__)


def read_subscribed_topics(
    protocol_type: str | None, protocol: str | None, members: Iterable[ClassicMember]
) -> set[str] | None:
    """The topics that members of a consumer group subscribe to; None if they are unknown."""
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
    """The topics of a ConsumerProtocolSubscription, which come first in all versions; None if it is malformed."""
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


LOADED = -1
"""`created_offset` of a group that was replayed while its shard was loading."""


class ClassicGroup:
    """`created_offset` is the log offset of the first record of the group, None before it is written.

    `pending_members` are IDs that dynamic members were given but have not joined with yet. `pending_sync` are members
    that got the generation but have not requested their assignment yet. Both are ordered, so that a replay of the same
    inputs gives the same responses.
    """

    def __init__(self, group_id: str, state_timestamp: int, created_offset: int | None = None) -> None:
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.DEAD
        self.state_timestamp = state_timestamp
        self.created_offset = created_offset
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, None] = {}
        self.pending_sync: dict[str, None] = {}
        self.subscribed_topics: set[str] | None = None
        self.new_member_added = False
        self.has_no_leader_on_record = False
        self.storing_generation: int | None = None

    def __repr__(self) -> str:
        return f"<Group {self.group_id!r} {self.state.value} generation {self.generation}, {len(self.members)} members>"

    # State.

    def is_in(self, *states: ClassicGroupState) -> bool:
        return self.state in states

    def transition(self, state: ClassicGroupState, wall: int) -> None:
        assert self.state in PREVIOUS_STATES[state], (self, state)
        self.previous_state, self.state, self.state_timestamp = self.state, state, wall

    @property
    def can_rebalance(self) -> bool:
        return self.state in PREVIOUS_STATES[ClassicGroupState.PREPARING_REBALANCE]

    @property
    def all_joined(self) -> bool:
        return not self.pending_members and all(member.join_token is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def next_generation(self, wall: int) -> None:
        """Every member joined, or the group is empty: choose the protocol and change state."""
        self.generation += 1
        self.protocol = choose_protocol(self.members.values()) if self.members else None
        self.transition(ClassicGroupState.COMPLETING_REBALANCE if self.members else ClassicGroupState.EMPTY, wall)
        self.update_subscribed_topics()
        self.pending_sync.clear()

    def update_subscribed_topics(self) -> None:
        self.subscribed_topics = read_subscribed_topics(self.protocol_type, self.protocol, self.members.values())

    def subscribes_to(self, topic: str) -> bool:
        """A consumer group whose subscription cannot be parsed counts as subscribed to every topic."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed_topics

    # Members.

    def add(self, member: ClassicMember) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type
        self.leader = self.leader or member.member_id
        self.members[member.member_id] = member
        self.pending_members.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_members.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def rename_static(self, member: ClassicMember, member_id: str) -> None:
        """Give a static member another ID: a new process replaced it."""
        assert member.instance_id is not None
        del self.members[member.member_id]
        if self.leader == member.member_id:
            self.leader = member_id
        if member.member_id in self.pending_sync:
            del self.pending_sync[member.member_id]
            self.pending_sync[member_id] = None
        member.member_id = member_id
        self.members[member_id] = member
        self.static_members[member.instance_id] = member_id

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it joined, else take the first member that did; False if none did."""
        if self.leader is not None and self.members[self.leader].join_token is not None:
            return True
        first_joined = next(
            (member_id for member_id, member in self.members.items() if member.join_token is not None), None
        )
        self.leader = first_joined or self.leader
        return first_joined is not None

    def assign(self, assignments: dict[str, bytes]) -> None:
        for member_id, member in self.members.items():
            member.assignment = assignments.get(member_id, NO_ASSIGNMENT)

    def accepts(self, member_id: str, max_size: int) -> bool:
        """Whether there is room. During a join phase only waiting members count, so that the last ones to rejoin are
        left out of a group that is too large."""
        if self.is_in(ClassicGroupState.EMPTY, ClassicGroupState.DEAD):
            return True
        member = self.members.get(member_id)
        if self.is_in(ClassicGroupState.PREPARING_REBALANCE):
            waiting = sum(other.join_token is not None for other in self.members.values())
            return waiting < max_size or (member is not None and member.join_token is not None)
        return member is not None or len(self.members) < max_size

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols is compatible with the others."""
        names = set(names)
        if self.is_in(ClassicGroupState.EMPTY):
            return bool(protocol_type) and bool(names)
        if self.protocol_type != protocol_type:
            return False
        return bool(names & common_protocols(self.members.values())) if self.members else bool(names)

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raises ApiError UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another process replaced the static member."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_invariants(self) -> None:
        assert (not self.members) == self.is_in(ClassicGroupState.EMPTY) or self.is_in(
            ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD
        ), self
        assert (self.leader is None) == (not self.members), self
        assert self.leader is None or self.leader in self.members, self
        assert not self.pending_members.keys() & self.members.keys(), self
        assert self.pending_sync.keys() <= self.members.keys(), self
        statics = {m.instance_id: m.member_id for m in self.members.values() if m.instance_id is not None}
        assert statics == self.static_members, self
        for member in self.members.values():
            assert member.join_token is None or self.is_in(
                ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.STABLE
            ), self
            assert member.sync_token is None or self.is_in(ClassicGroupState.COMPLETING_REBALANCE), self


UNKNOWN_MEMBER = ""
"""The ID of a member that has none yet."""


def join_error(member_id: str, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(member_id=member_id, error_code=code, protocol_name=None)


def join_response(
    group: ClassicGroup,
    member_id: str,
    *,
    leader: str | None = None,
    with_members: bool = False,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The present generation. Only the member that computes the assignment gets the list of members."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=_joined_members(group) if with_members else [],
    )


def _joined_members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    assert group.protocol is not None
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in group.members.values()
    ]


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


def sync_response(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
