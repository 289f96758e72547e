"""A consumer's membership under the classic protocol: join, sync, heartbeat and leave.

    OUT → JOINING → ASSIGNING (the leader, until it knows the topics) → SYNCING → STABLE → …

Before it rejoins, an eager member gives up all its partitions, a cooperative one only those it must (see `Revocation`).
"""

from collections.abc import Collection, Mapping, Sequence

from tidelog.client.cluster import Cluster
from tidelog.client.coordinator import CoordinatorFinder
from tidelog.client.group.assignors import ASSIGNORS, Assignments, Assignor, Subscription, are_cooperative
from tidelog.client.group.classic_requests import GroupRequests, decode_assignment, decode_subscription
from tidelog.client.group.member import Member, Stage, ignore
from tidelog.client.link import Answer
from tidelog.client.options import ConsumerOptions
from tidelog.client.results import Assigned, Revoked, code_of
from tidelog.errors import ErrorCode, ProtocolViolation
from tidelog.model import Time, TopicPartition, earliest
from tidelog.wire.messages.groups.join_group import JoinGroupResponse, JoinGroupResponseMember


class Leading:
    """The assignment of one generation. ProtocolViolation if a member's subscription cannot be read. `skips`: a static
    leader came back, and what was assigned before stays (KIP-814); it only watches the topics from now on."""

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
        self._seen: Mapping[str, int] = {}
        unknown = self._topics - cluster.metadata.topics.keys()
        self._updates_needed = cluster.metadata.updates + (1 if unknown else 0)
        cluster.want_topics(self._topics, now)
        if unknown:
            cluster.want_metadata(now)

    def __repr__(self) -> str:
        return f"<Leading {len(self._members)} members of {sorted(self._topics)}>"

    @property
    def knows_topics(self) -> bool:
        """Whether the cluster was asked about every topic that somebody wants."""
        return self._cluster.metadata.updates >= self._updates_needed

    def assign(self) -> Assignments:
        self._seen = self._partitions()
        return {} if self.skips else self._assignor.assign(self._seen, self._members)

    def must_assign_again(self) -> bool:
        """Whether topics came, went or grew since; told once."""
        partitions = self._partitions()
        has_changed = partitions != self._seen
        self._seen = partitions
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


class Membership(Member):
    """A member of the classic protocol."""

    def __init__(self, cluster: Cluster, finder: CoordinatorFinder, group: str, options: ConsumerOptions) -> None:
        super().__init__(cluster, finder, group, options)
        self.is_cooperative = are_cooperative(options.partition_assignment_strategy)
        self._requests = GroupRequests(group, options)
        self._is_prepared = False  # everything is given up that must be before the next join
        self._needs_join = False
        self._had: frozenset[TopicPartition] = frozenset()
        self._protocol = ""
        self._leading: Leading | None = None
        self._retry_at = 0
        self._heartbeat_is_out = False
        self._session_until = 0

    @property
    def goes_on(self) -> bool:
        return self._leading is not None and self._leading.skips

    # What the consumer says.

    def subscribe(self, topics: Collection[str]) -> None:
        """Want these topics from now on."""
        self.failure = None
        if self.topics != frozenset(topics) or self.stage is Stage.OUT:
            self.topics = frozenset(topics)
            self._needs_join = True

    def polled(self, now: Time) -> None:
        super().polled(now)
        if self.stage is Stage.OUT and self.topics and self.failure is None:
            self._needs_join = True

    def leave(self, reason: str, now: Time) -> None:
        """Leave at once: the group goes on without waiting for the session to end. A static member stays registered."""
        node = self._finder.node(now)
        if self.member_id and node is not None and self._options.group_instance_id is None:
            self._cluster.ask(node, self._requests.leave(self.member_id, reason), ignore, now)
        self.member_id = ""
        self._forget()

    def expelled(self, now: Time) -> None:
        """Some answer said that the group went on without this member."""
        self._lose()
        self._needs_join = True
        self._retry_at = now.mono

    def rebalancing(self) -> None:
        """Some answer said that the group is rebalancing."""
        self._needs_join = True

    # Time.

    def _go_on(self, node: int | None, now: Time) -> None:
        if node is None:
            return
        self._watch_session(now)
        if self.stage is Stage.STABLE:
            self._watch_partitions(now)
            self._heartbeat(node, now)
        if self.stage is Stage.ASSIGNING:
            self._maybe_assign(node, now)
        elif (
            self._needs_join and self._polls and self.stage in (Stage.OUT, Stage.STABLE) and now.mono >= self._retry_at
        ):
            self._maybe_join(node, now)

    @property
    def deadline(self) -> int | None:
        if self.failure is not None or not self.topics:
            return None
        moments = [self._finder.deadline]
        if self.stage is Stage.STABLE and not self._heartbeat_is_out and self._finder.is_known:
            moments.append(self._heartbeat_at)
        if self.stage is not Stage.OUT:
            moments.append(self._poll_until)
        may_join = self._revocation.is_over and self._finder.is_known and self._polls
        if self._needs_join and self.stage is Stage.OUT and may_join:
            moments.append(self._retry_at)
        return earliest(*moments)

    def _watch_session(self, now: Time) -> None:
        """Without a heartbeat for a whole session the coordinator is not there any more, or not ours."""
        if self.stage is Stage.STABLE and now.mono >= self._session_until:
            self._session_until = now.mono + self._options.session_timeout_ms
            self._finder.lost(now)

    def _watch_partitions(self, now: Time) -> None:
        """The leader assigns again when topics came, went or grew."""
        if self._leading is not None and self._leading.must_assign_again():
            self._needs_join = True
            self._retry_at = now.mono

    # Heartbeats.

    def _heartbeat(self, node: int, now: Time) -> None:
        if self._heartbeat_is_out or now.mono < self._heartbeat_at:
            return
        self._heartbeat_is_out = True
        self._heartbeat_at = now.mono + self._options.heartbeat_interval_ms
        request = self._requests.heartbeat(self.member_id, self.generation)
        generation = self.generation

        def beat(answer: Answer, now: Time) -> None:
            self._heartbeat_is_out = False
            if generation == self.generation and self.stage is Stage.STABLE:
                self._beaten(answer, now)

        self._cluster.ask(node, request, beat, now)

    def _beaten(self, answer: Answer, now: Time) -> None:
        code = answer.fault or code_of(answer.response.error_code)
        if not code:
            self._session_until = now.mono + self._options.session_timeout_ms
        elif self._finder.judge(code, answer.fault, now):
            self._heartbeat_at = now.mono + self._options.retry_backoff_ms
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._needs_join = True
        else:
            self._refused(code, now)

    # Giving up partitions before a join.

    def _maybe_join(self, node: int, now: Time) -> None:
        """Join, once everything is given up that must be."""
        if not self._is_prepared:
            self._is_prepared = True
            kept = frozenset(p for p in self.owned if p.topic in self.topics) if self.is_cooperative else frozenset()
            self._revocation.want(self.owned - kept)
        partitions = self._revocation.take()
        if partitions:
            self._had = self.owned
            self.owned -= partitions
            self.events.append(Revoked(partitions))
        if self._revocation.is_over:
            self._join(node, now)

    # Join.

    def _join(self, node: int, now: Time) -> None:
        self.stage = Stage.JOINING
        self._needs_join = False
        self._is_prepared = False
        self._attempt += 1
        attempt = self._attempt
        mine = Subscription(self.topics, self.owned, self.generation)
        request = self._requests.join(self.member_id, mine, self.owned or self._had)

        def joined(answer: Answer, now: Time) -> None:
            if attempt == self._attempt and self.stage is Stage.JOINING:
                self._joined(answer, now)

        timeout = self._options.max_poll_interval_ms + _JOIN_GRACE_MS
        self._cluster.ask(node, request, joined, now, timeout_ms=timeout)

    def _joined(self, answer: Answer, now: Time) -> None:
        code = answer.fault or code_of(answer.response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.response.member_id
            self._again(now.mono)
        elif self._finder.judge(code, answer.fault, now) or code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._again(now.mono + self._backoff.next_ms())
        elif code:
            self._refused(code, now)
        else:
            self._accepted(answer.response, now)

    def _accepted(self, response: JoinGroupResponse, now: Time) -> None:
        self.member_id = response.member_id
        self.generation = response.generation_id
        self._protocol = response.protocol_name or ""
        self.stage = Stage.ASSIGNING
        self._leading = None
        if response.leader == response.member_id:
            assignor, skips = ASSIGNORS[self._protocol], response.skip_assignment
            try:
                self._leading = Leading(self._cluster, assignor, response.members, now, skips=skips)
            except ProtocolViolation as violation:
                self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(violation))

    def _maybe_assign(self, node: int, now: Time) -> None:
        """A member waits for nothing; the leader until it has heard of all topics that somebody wants."""
        if self._leading is None:
            self._sync(node, {}, now)
        elif self._leading.knows_topics:
            self._sync(node, self._leading.assign(), now)

    # Sync.

    def _sync(self, node: int, assignments: Mapping[str, Collection[TopicPartition]], now: Time) -> None:
        self.stage = Stage.SYNCING
        request = self._requests.sync(self.member_id, self.generation, self._protocol, assignments)
        attempt = self._attempt

        def synced(answer: Answer, now: Time) -> None:
            if attempt == self._attempt and self.stage is Stage.SYNCING:
                self._synced(answer, now)

        timeout = self._options.max_poll_interval_ms + _JOIN_GRACE_MS
        self._cluster.ask(node, request, synced, now, timeout_ms=timeout)

    def _synced(self, answer: Answer, now: Time) -> None:
        code = answer.fault or code_of(answer.response.error_code)
        if self._finder.judge(code, answer.fault, now) or code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._again(now.mono + self._backoff.next_ms())
        elif code:
            self._refused(code, now)
        else:
            try:
                self._settle(decode_assignment(answer.response.assignment), now)
            except ProtocolViolation as violation:
                self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(violation))

    def _settle(self, assigned: frozenset[TopicPartition], now: Time) -> None:
        """The group is stable. A cooperative member that has to give something up does so, and joins again."""
        self.stage = Stage.STABLE
        self._backoff.succeeded()
        self._heartbeat_at = now.mono + self._options.heartbeat_interval_ms
        self._session_until = now.mono + self._options.session_timeout_ms
        added = assigned - self.owned
        surplus = self.owned - assigned
        self.owned |= added
        self._cluster.want_topics({partition.topic for partition in assigned}, now)
        self.events.append(Assigned(added, self.generation))
        if surplus:
            self._revocation.want(surplus)
            self._is_prepared = True
            self._needs_join = True
            self._retry_at = now.mono

    # Setbacks.

    def _again(self, at: int) -> None:
        self.stage = Stage.OUT
        self._needs_join = True
        self._retry_at = at

    def _refused(self, code: ErrorCode, now: Time) -> None:
        """An answer that is about this member, not about the coordinator."""
        if code in _FATAL:
            self._fail(code, "the group refuses this member")
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            was_joining = self.stage is Stage.JOINING
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._lose()
            self._needs_join = True
            self._retry_at = now.mono + (self._backoff.next_ms() if was_joining else 0)
        else:
            self._fail(code, "the group's coordinator answered with an error")

    def _forget(self) -> None:
        super()._forget()
        self._leading = None
        self._is_prepared = False
