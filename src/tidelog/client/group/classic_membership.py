"""A consumer's membership under the classic protocol: join, sync, heartbeat and leave.

    OUT → JOINING → ASSIGNING (the leader, until it knows the topics) → SYNCING → STABLE → …

Before it rejoins, an eager member gives up all its partitions, a cooperative one only those it must (see `Revocation`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tidelog.client.cluster import Cluster
from tidelog.client.coordinator import CoordinatorFinder
from tidelog.client.group.assignors import ASSIGNORS, Assignments, Assignor, Subscription, are_cooperative
from tidelog.client.group.classic_requests import GroupRequests, decode_assignment, decode_subscription
from tidelog.client.group.member import Member, MemberState, ignore_answer
from tidelog.client.link import Answer
from tidelog.client.options import ConsumerOptions
from tidelog.client.results import Assigned, Revoked, code_of
from tidelog.errors import ErrorCode, ProtocolViolation
from tidelog.model import Time, TopicPartition, earliest
from tidelog.wire.messages.groups.classic_group import JoinGroupResponse, JoinGroupResponseMember


class LeaderAssignment:
    """The leader's assignment for one generation. ProtocolViolation if a member's subscription is malformed.

    `skips`: a static leader came back and the previous assignment stays (KIP-814); the leader only watches the topics
    from now on.
    """

    def __init__(
        self,
        cluster: Cluster,
        assignor: Assignor,
        members: Sequence[JoinGroupResponseMember],
        now: Time,
        *,
        skips: bool = False,
    ) -> None:
        self._cluster = cluster
        self._assignor = assignor
        self.skips = skips
        self._members: Mapping[str, Subscription] = {
            member.member_id: decode_subscription(assignor, member.metadata, member.group_instance_id)
            for member in members
        }
        self._topics = {topic for subscription in self._members.values() for topic in subscription.topics}
        self._assigned_partitions: Mapping[str, int] = {}
        unknown = self._topics - cluster.metadata.topics.keys()
        self._updates_needed = cluster.metadata.updates + (1 if unknown else 0)
        cluster.add_topics(self._topics, now)
        if unknown:
            cluster.request_metadata_update(now)

    def __repr__(self) -> str:
        return f"<LeaderAssignment {len(self._members)} members of {sorted(self._topics)}>"

    @property
    def has_topics(self) -> bool:
        """Whether the metadata covers every topic that a member subscribes to."""
        return self._cluster.metadata.updates >= self._updates_needed

    def assign(self) -> Assignments:
        self._assigned_partitions = self._partitions()
        return {} if self.skips else self._assignor.assign(self._assigned_partitions, self._members)

    def topics_changed(self) -> bool:
        """Whether topics were created, deleted or grew since the last call."""
        partitions = self._partitions()
        has_changed = partitions != self._assigned_partitions
        self._assigned_partitions = partitions
        return has_changed

    def _partitions(self) -> dict[str, int]:
        known = self._cluster.metadata.topics
        return {
            topic: len(known[topic].partitions) for topic in self._topics if topic in known and known[topic].partitions
        }


_JOIN_GRACE_MS = 5_000  # the coordinator waits for the others as long as the rebalance timeout; then it answers

_FATAL = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
    }
)


class ClassicMembership(Member):
    """A member under the classic protocol."""

    def __init__(self, cluster: Cluster, finder: CoordinatorFinder, group: str, options: ConsumerOptions) -> None:
        super().__init__(cluster, finder, group, options)
        self.is_cooperative = are_cooperative(options.partition_assignment_strategy)
        self._requests = GroupRequests(group, options)
        self._is_prepared = False  # partitions that must be given up before the next join are given up
        self._needs_join = False
        self._owned_before: frozenset[TopicPartition] = frozenset()
        self._protocol = ""
        self._leader_assignment: LeaderAssignment | None = None
        self._retry_at = 0
        self._heartbeat_in_flight = False
        self._session_deadline = 0

    @property
    def skips_assignment(self) -> bool:
        return self._leader_assignment is not None and self._leader_assignment.skips

    # Calls of the consumer.

    def subscribe(self, topics: Collection[str]) -> None:
        """Subscribe to these topics from now on."""
        self.failure = None
        if self.topics != frozenset(topics) or self.state is MemberState.OUT:
            self.topics = frozenset(topics)
            self._needs_join = True

    def polled(self, now: Time) -> None:
        super().polled(now)
        if self.state is MemberState.OUT and self.topics and self.failure is None:
            self._needs_join = True

    def leave(self, reason: str, now: Time) -> None:
        """Leave at once, so that the group does not wait for the session to expire. A static member stays
        registered."""
        node = self._finder.node(now)
        if self.member_id and node is not None and self._options.group_instance_id is None:
            self._cluster.send_request(node, self._requests.leave(self.member_id, reason), ignore_answer, now)
        self.member_id = ""
        self._reset()

    def expelled(self, now: Time) -> None:
        """A response says that the group continued without this member."""
        self._lose_partitions()
        self._needs_join = True
        self._retry_at = now.mono

    def rebalancing(self) -> None:
        """A response says that the group is rebalancing."""
        self._needs_join = True

    # Time.

    def _advance_member(self, node: int | None, now: Time) -> None:
        if node is None:
            return
        self._expire_session(now)
        if self.state is MemberState.STABLE:
            self._rejoin_if_topics_changed(now)
            self._send_heartbeat(node, now)
        if self.state is MemberState.ASSIGNING:
            self._maybe_assign(node, now)
        elif (
            self._needs_join
            and self._is_polled
            and self.state in (MemberState.OUT, MemberState.STABLE)
            and now.mono >= self._retry_at
        ):
            self._maybe_join(node, now)

    @property
    def deadline(self) -> int | None:
        if self.failure is not None or not self.topics:
            return None
        moments = [self._finder.deadline]
        if self.state is MemberState.STABLE and not self._heartbeat_in_flight and self._finder.is_known:
            moments.append(self._heartbeat_at)
        if self.state is not MemberState.OUT:
            moments.append(self._poll_deadline)
        may_join = self._revocation.is_done and self._finder.is_known and self._is_polled
        if self._needs_join and self.state is MemberState.OUT and may_join:
            moments.append(self._retry_at)
        return earliest(*moments)

    def _expire_session(self, now: Time) -> None:
        """After a whole session without a heartbeat response, look the coordinator up again."""
        if self.state is MemberState.STABLE and now.mono >= self._session_deadline:
            self._session_deadline = now.mono + self._options.session_timeout_ms
            self._finder.lost(now)

    def _rejoin_if_topics_changed(self, now: Time) -> None:
        """The leader rejoins to assign again when topics were created, deleted or grew."""
        if self._leader_assignment is not None and self._leader_assignment.topics_changed():
            self._needs_join = True
            self._retry_at = now.mono

    # Heartbeats.

    def _send_heartbeat(self, node: int, now: Time) -> None:
        if self._heartbeat_in_flight or now.mono < self._heartbeat_at:
            return
        self._heartbeat_in_flight = True
        self._heartbeat_at = now.mono + self._options.heartbeat_interval_ms
        request = self._requests.heartbeat(self.member_id, self.generation)
        generation = self.generation

        def answered(answer: Answer, now: Time) -> None:
            self._heartbeat_in_flight = False
            if generation == self.generation and self.state is MemberState.STABLE:
                self._heartbeat_answered(answer, now)

        self._cluster.send_request(node, request, answered, now)

    def _heartbeat_answered(self, answer: Answer, now: Time) -> None:
        code = answer.fault or code_of(answer.response.error_code)
        if not code:
            self._session_deadline = now.mono + self._options.session_timeout_ms
        elif self._finder.handle_error(code, answer.fault, now):
            self._heartbeat_at = now.mono + self._options.retry_backoff_ms
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._needs_join = True
        else:
            self._refused(code, now)

    # Giving up partitions before a join.

    def _maybe_join(self, node: int, now: Time) -> None:
        """Join as soon as everything that must be given up is given up."""
        if not self._is_prepared:
            self._is_prepared = True
            retained = (
                frozenset(p for p in self.owned if p.topic in self.topics) if self.is_cooperative else frozenset()
            )
            self._revocation.start(self.owned - retained)
        partitions = self._revocation.take_revoked()
        if partitions:
            self._owned_before = self.owned
            self.owned -= partitions
            self.events.append(Revoked(partitions))
        if self._revocation.is_done:
            self._join(node, now)

    # Join.

    def _join(self, node: int, now: Time) -> None:
        self.state = MemberState.JOINING
        self._needs_join = False
        self._is_prepared = False
        self._attempt += 1
        mine = Subscription(self.topics, self.owned, self.generation)
        request = self._requests.join(self.member_id, mine, self.owned or self._owned_before)
        self._send(node, request, self._joined, now)

    def _send(self, node: int, request: Any, handle: Callable[[Answer, Time], None], now: Time) -> None:
        """The answer counts while the member is in the state and the attempt in which it sent the request."""
        attempt, state = self._attempt, self.state

        def answered(answer: Answer, now: Time) -> None:
            if (attempt, state) == (self._attempt, self.state):
                handle(answer, now)

        timeout = self._options.max_poll_interval_ms + _JOIN_GRACE_MS
        self._cluster.send_request(node, request, answered, now, timeout_ms=timeout)

    def _joined(self, answer: Answer, now: Time) -> None:
        code = answer.fault or code_of(answer.response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.response.member_id
            self._rejoin(now.mono)
        elif self._finder.handle_error(code, answer.fault, now) or code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin(now.mono + self._backoff.next_ms())
        elif code:
            self._refused(code, now)
        else:
            self._join_accepted(answer.response, now)

    def _join_accepted(self, response: JoinGroupResponse, now: Time) -> None:
        self.member_id = response.member_id
        self.generation = response.generation_id
        self._protocol = response.protocol_name or ""
        self.state = MemberState.ASSIGNING
        self._leader_assignment = None
        if response.leader == response.member_id:
            assignor, skips = ASSIGNORS[self._protocol], response.skip_assignment
            try:
                self._leader_assignment = LeaderAssignment(self._cluster, assignor, response.members, now, skips=skips)
            except ProtocolViolation as violation:
                self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(violation))

    def _maybe_assign(self, node: int, now: Time) -> None:
        """A member syncs at once; the leader when the metadata covers all subscribed topics."""
        if self._leader_assignment is None:
            self._sync(node, {}, now)
        elif self._leader_assignment.has_topics:
            self._sync(node, self._leader_assignment.assign(), now)

    # Sync.

    def _sync(self, node: int, assignments: Mapping[str, Collection[TopicPartition]], now: Time) -> None:
        self.state = MemberState.SYNCING
        request = self._requests.sync(self.member_id, self.generation, self._protocol, assignments)
        self._send(node, request, self._synced, now)

    def _synced(self, answer: Answer, now: Time) -> None:
        code = answer.fault or code_of(answer.response.error_code)
        if self._finder.handle_error(code, answer.fault, now) or code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin(now.mono + self._backoff.next_ms())
        elif code:
            self._refused(code, now)
        else:
            try:
                self._take_assignment(decode_assignment(answer.response.assignment), now)
            except ProtocolViolation as violation:
                self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(violation))

    def _take_assignment(self, assigned: frozenset[TopicPartition], now: Time) -> None:
        """The group is stable. A cooperative member that must give partitions up does so and joins again."""
        self.state = MemberState.STABLE
        self._backoff.succeeded()
        self._heartbeat_at = now.mono + self._options.heartbeat_interval_ms
        self._session_deadline = now.mono + self._options.session_timeout_ms
        added = assigned - self.owned
        surplus = self.owned - assigned
        self.owned |= added
        self._cluster.add_topics({partition.topic for partition in assigned}, now)
        self.events.append(Assigned(added, self.generation))
        if surplus:
            self._revocation.start(surplus)
            self._is_prepared = True
            self._needs_join = True
            self._retry_at = now.mono

    # Failures.

    def _rejoin(self, at: int) -> None:
        self.state = MemberState.OUT
        self._needs_join = True
        self._retry_at = at

    def _refused(self, code: ErrorCode, now: Time) -> None:
        """Handle an error that concerns this member, not the coordinator."""
        if code in _FATAL:
            self._fail(code, "the group refuses this member")
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            was_joining = self.state is MemberState.JOINING
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._lose_partitions()
            self._needs_join = True
            self._retry_at = now.mono + (self._backoff.next_ms() if was_joining else 0)
        else:
            self._fail(code, "the group's coordinator answered with an error")

    def _reset(self) -> None:
        super()._reset()
        self._leader_assignment = None
        self._is_prepared = False
