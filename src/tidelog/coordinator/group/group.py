"""One classic group: its members, its generation, and who waits for whom. Rules about itself only; what a request may
do to it stands in join, sync, session, leave and rebalance."""

from collections.abc import Iterable

from tidelog.coordinator.group import protocols
from tidelog.coordinator.group.member import NO_ASSIGNMENT, Member
from tidelog.coordinator.group.state import FOLLOWS, GroupState
from tidelog.errors import ApiError, ErrorCode

LOADED = -1
"""`created_offset` of a group that was replayed when its shard was loaded."""


class Group:
    """`created_offset` is where the log first tells of the group, None until then.

    `pending` are ids that were given out to dynamic members which have yet to join with them; `unsynced` those that
    were told the generation and have yet to ask for their assignment. Both are ordered, so that a replay of the same
    inputs gives the same answers.
    """

    def __init__(self, group_id: str, state_timestamp: int, created_offset: int | None = None) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp = state_timestamp
        self.created_offset = created_offset
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending: dict[str, None] = {}
        self.unsynced: dict[str, None] = {}
        self.subscribed_topics: set[str] | None = None
        self.new_member_added = False
        self.has_no_leader_on_record = False
        self.storing: int | None = None

    def __repr__(self) -> str:
        return f"<Group {self.group_id!r} {self.state.value} generation {self.generation}, {len(self.members)} members>"

    # State.

    def is_in(self, *states: GroupState) -> bool:
        return self.state in states

    def transition(self, state: GroupState, wall: int) -> None:
        assert self.state in FOLLOWS[state], (self, state)
        self.previous_state, self.state, self.state_timestamp = self.state, state, wall

    @property
    def can_rebalance(self) -> bool:
        return self.state in FOLLOWS[GroupState.PREPARING_REBALANCE]

    @property
    def all_joined(self) -> bool:
        return not self.pending and all(member.joining is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def next_generation(self, wall: int) -> None:
        """Every member joined, or nobody is left: choose the protocol and go on."""
        self.generation += 1
        self.protocol = protocols.choose(self.members.values()) if self.members else None
        self.transition(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, wall)
        self.note_subscription()
        self.unsynced.clear()

    def note_subscription(self) -> None:
        self.subscribed_topics = protocols.subscribed_topics(self.protocol_type, self.protocol, self.members.values())

    def subscribes_to(self, topic: str) -> bool:
        """A consumer group whose subscription cannot be read counts as subscribed to everything."""
        if self.subscribed_topics is None:
            return self.protocol_type == protocols.CONSUMER
        return topic in self.subscribed_topics

    # Members.

    def add(self, member: Member) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type
        self.leader = self.leader or member.member_id
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending.pop(member_id, None)
        self.unsynced.pop(member_id, None)

    def rename_static(self, member: Member, member_id: str) -> None:
        """Give a static member another id: a new process took its place."""
        assert member.instance_id is not None
        del self.members[member.member_id]
        if self.leader == member.member_id:
            self.leader = member_id
        if member.member_id in self.unsynced:
            del self.unsynced[member.member_id]
            self.unsynced[member_id] = None
        member.member_id = member_id
        self.members[member_id] = member
        self.static_members[member.instance_id] = member_id

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it joined, else take the first who did; False where nobody did."""
        if self.leader is not None and self.members[self.leader].joining is not None:
            return True
        joined = next((member_id for member_id, member in self.members.items() if member.joining is not None), None)
        self.leader = joined or self.leader
        return joined is not None

    def assign(self, assignments: dict[str, bytes]) -> None:
        for member_id, member in self.members.items():
            member.assignment = assignments.get(member_id, NO_ASSIGNMENT)

    def accepts(self, member_id: str, max_size: int) -> bool:
        """Whether there is room. While members join, those who wait are counted, so that the last to come back are
        the ones left out of a group that is too large."""
        if self.is_in(GroupState.EMPTY, GroupState.DEAD):
            return True
        member = self.members.get(member_id)
        if self.is_in(GroupState.PREPARING_REBALANCE):
            waiting = sum(other.joining is not None for other in self.members.values())
            return waiting < max_size or (member is not None and member.joining is not None)
        return member is not None or len(self.members) < max_size

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether somebody with these protocols could be a member beside the others."""
        names = set(names)
        if self.is_in(GroupState.EMPTY):
            return bool(protocol_type) and bool(names)
        if self.protocol_type != protocol_type:
            return False
        return bool(names & protocols.common(self.members.values())) if self.members else bool(names)

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """ApiError UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where another process took the static member's place."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_invariants(self) -> None:
        assert (not self.members) == self.is_in(GroupState.EMPTY) or self.is_in(
            GroupState.PREPARING_REBALANCE, GroupState.DEAD
        ), self
        assert (self.leader is None) == (not self.members), self
        assert self.leader is None or self.leader in self.members, self
        assert not self.pending.keys() & self.members.keys(), self
        assert self.unsynced.keys() <= self.members.keys(), self
        statics = {m.instance_id: m.member_id for m in self.members.values() if m.instance_id is not None}
        assert statics == self.static_members, self
        for member in self.members.values():
            assert member.joining is None or self.is_in(GroupState.PREPARING_REBALANCE, GroupState.STABLE), self
            assert member.syncing is None or self.is_in(GroupState.COMPLETING_REBALANCE), self
