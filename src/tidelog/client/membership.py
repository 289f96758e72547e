"""A consumer's membership in its group: the classic protocol of join, sync, heartbeat and leave.

    OUT → JOINING → ASSIGNING (the leader, until it knows the topics) → SYNCING → STABLE → …

To rejoin, an eager member first gives up what it has, a cooperative one only what it must. Giving up has two steps, so
that offsets get committed: the consumer commits if it does so by itself (`must_commit` until `committed`), then
`Revoked` is told, and the member goes on at the next `poll`.
"""

from collections.abc import Collection, Mapping
from enum import Enum, auto

from tidelog.client.assignors import ASSIGNORS, Subscription, are_cooperative
from tidelog.client.cluster import Cluster
from tidelog.client.coordinator import CoordinatorFinder
from tidelog.client.link import Answer
from tidelog.client.options import ConsumerOptions
from tidelog.client.results import Assigned, Event, Failed, Lost, Revoked, code_of
from tidelog.client.subscriptions import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.errors import ErrorCode, ProtocolViolation
from tidelog.model import Time, TopicPartition
from tidelog.wire.messages.groups.heartbeat import HeartbeatRequest
from tidelog.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

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


class Stage(Enum):
    OUT = auto()
    JOINING = auto()
    ASSIGNING = auto()
    SYNCING = auto()
    STABLE = auto()


class Membership:
    """One member. `owned` is what it may read; events are for the consumer to take."""

    def __init__(self, cluster: Cluster, finder: CoordinatorFinder, group: str, options: ConsumerOptions) -> None:
        self._cluster = cluster
        self._finder = finder
        self._group = group
        self._options = options
        self._backoff = cluster.backoff()
        self._names = options.partition_assignment_strategy
        self.is_cooperative = are_cooperative(self._names)
        self.stage = Stage.OUT
        self.member_id = ""
        self.generation = -1
        self.topics: frozenset[str] = frozenset()
        self.owned: frozenset[TopicPartition] = frozenset()
        self.events: list[Event] = []
        self.failure: Failed | None = None
        self.must_commit = False
        self._to_revoke: frozenset[TopicPartition] | None = None
        self._awaits_poll = False
        self._needs_join = False
        self._had: frozenset[TopicPartition] = frozenset()
        self._protocol = ""
        self._leads: dict[str, Subscription] | None = None
        self._partitions_seen: Mapping[str, int] = {}
        self._metadata_needed = 0
        self._retry_at = 0
        self._heartbeat_at = 0
        self._heartbeat_is_out = False
        self._session_until = 0
        self._poll_until = 0
        self._polls = False  # the user does: it did within the last max.poll.interval.ms
        self._attempt = 0

    def __repr__(self) -> str:
        return f"<Membership {self._group} {self.stage.name} generation={self.generation} owned={len(self.owned)}>"

    @property
    def is_member(self) -> bool:
        return bool(self.member_id) and self.generation >= 0

    # What the consumer says.

    def subscribe(self, topics: Collection[str]) -> None:
        """Want these topics from now on."""
        self.failure = None
        if self.topics != frozenset(topics) or self.stage is Stage.OUT:
            self.topics = frozenset(topics)
            self._needs_join = True

    def polled(self, now: Time) -> None:
        """The user is alive, and has seen every event so far."""
        self._poll_until = now.mono + self._options.max_poll_interval_ms
        self._polls = True
        self._awaits_poll = False
        if self.stage is Stage.OUT and self.topics and self.failure is None:
            self._needs_join = True

    def committed(self) -> None:
        """What is about to be revoked is committed, as far as it could be."""
        self.must_commit = False

    def leave(self, reason: str, now: Time) -> None:
        """Leave at once: the group goes on without waiting for the session to end. A static member stays registered."""
        node = self._finder.node(now)
        if self.member_id and node is not None and self._options.group_instance_id is None:
            member = MemberIdentity(member_id=self.member_id, reason=reason)
            request = LeaveGroupRequest(group_id=self._group, member_id=self.member_id, members=[member])
            self._cluster.ask(node, request, _ignore, now)
        self.member_id = ""
        self._forget()

    def expelled(self, now: Time) -> None:
        """Some answer said that the group went on without this member."""
        self._lose()
        self._retry_at = now.mono

    def rebalancing(self) -> None:
        """Some answer said that the group is rebalancing."""
        self._needs_join = True

    # Time.

    def advance(self, now: Time) -> None:
        if self.failure is not None or not self.topics:
            return
        if self._finder.refused:
            self._fail(self._finder.refused, "the group's coordinator cannot be found")
            return
        node = self._finder.node(now)
        if self.stage is not Stage.OUT and now.mono >= self._poll_until:
            self._expire(now)
            return
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

    def _expire(self, now: Time) -> None:
        """A user who does not come back must not hold partitions."""
        lost = self.owned
        self._polls = False
        self.leave("max.poll.interval.ms passed without a poll", now)
        if lost:
            self.events.append(Lost(lost))

    @property
    def deadline(self) -> int | None:
        if self.failure is not None or not self.topics:
            return None
        moments = [self._finder.deadline]
        if self.stage is Stage.STABLE and not self._heartbeat_is_out and self._finder.is_known:
            moments.append(self._heartbeat_at)
        if self.stage is not Stage.OUT:
            moments.append(self._poll_until)
        is_held_back = self._awaits_poll or self.must_commit or not self._finder.is_known or not self._polls
        if self._needs_join and self.stage is Stage.OUT and not is_held_back:
            moments.append(self._retry_at)
        return min((moment for moment in moments if moment is not None), default=None)

    def _watch_session(self, now: Time) -> None:
        """Without a heartbeat for a whole session the coordinator is not there any more, or not ours."""
        if self.stage is Stage.STABLE and now.mono >= self._session_until:
            self._session_until = now.mono + self._options.session_timeout_ms
            self._finder.lost(now)

    def _watch_partitions(self, now: Time) -> None:
        """The leader assigns again when topics came, went or grew."""
        if self._leads is not None and self._partitions_seen != self._partition_counts(self._leads):
            self._partitions_seen = self._partition_counts(self._leads)
            self._needs_join = True
            self._retry_at = now.mono

    # Heartbeats.

    def _heartbeat(self, node: int, now: Time) -> None:
        if self._heartbeat_is_out or now.mono < self._heartbeat_at:
            return
        self._heartbeat_is_out = True
        self._heartbeat_at = now.mono + self._options.heartbeat_interval_ms
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._options.group_instance_id,
        )
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
        if not self._gave_up():
            return
        self._join(node, now)

    def _gave_up(self) -> bool:
        """Take the next step of giving up; whether there is none left."""
        if self.must_commit or self._awaits_poll:
            return False
        if self._to_revoke is None:
            kept = frozenset(p for p in self.owned if p.topic in self.topics) if self.is_cooperative else frozenset()
            self._to_revoke = self.owned - kept
            if self._to_revoke:
                self.must_commit = True
                return False
        if self._to_revoke:
            self._revoke(self._to_revoke)
            return False
        return True

    def _revoke(self, partitions: frozenset[TopicPartition]) -> None:
        """Tell it, and wait for the next poll."""
        self._had = self.owned
        self.owned -= partitions
        self.events.append(Revoked(partitions))
        self._to_revoke = frozenset()
        self._awaits_poll = True

    # Join.

    def _join(self, node: int, now: Time) -> None:
        self.stage = Stage.JOINING
        self._needs_join = False
        self._to_revoke = None
        self._attempt += 1
        attempt = self._attempt
        mine = Subscription(self.topics, self.owned, self.generation)
        had = self.owned or self._had
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=encode_subscription(ASSIGNORS[name], mine, had))
            for name in self._names
        ]
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self._options.session_timeout_ms,
            rebalance_timeout_ms=self._options.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
        )

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
        self._leads = None
        if response.leader == response.member_id and not response.skip_assignment:
            assignor = ASSIGNORS[self._protocol]
            try:
                self._leads = {
                    member.member_id: decode_subscription(assignor, member.metadata, member.group_instance_id)
                    for member in response.members
                }
            except ProtocolViolation as violation:
                self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(violation))
                return
            wanted = {topic for subscription in self._leads.values() for topic in subscription.topics}
            unknown = wanted - self._cluster.metadata.topics.keys()
            self._metadata_needed = self._cluster.metadata.updates + (1 if unknown else 0)
            self._cluster.want_topics(wanted, now)
            if unknown:
                self._cluster.want_metadata(now)

    def _maybe_assign(self, node: int, now: Time) -> None:
        """A member waits for nothing; the leader until it has heard of all topics that somebody wants."""
        if self._leads is None:
            self._sync(node, {}, now)
        elif self._cluster.metadata.updates >= self._metadata_needed:
            self._partitions_seen = self._partition_counts(self._leads)
            assignments = ASSIGNORS[self._protocol].assign(self._partitions_seen, self._leads)
            self._sync(node, assignments, now)

    def _partition_counts(self, members: Mapping[str, Subscription]) -> dict[str, int]:
        topics = self._cluster.metadata.topics
        wanted = {topic for subscription in members.values() for topic in subscription.topics}
        return {
            topic: len(topics[topic].partitions) for topic in wanted if topic in topics and topics[topic].partitions
        }

    # Sync.

    def _sync(self, node: int, assignments: Mapping[str, Collection[TopicPartition]], now: Time) -> None:
        self.stage = Stage.SYNCING
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
                for member, partitions in assignments.items()
            ],
        )
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
            self._to_revoke = surplus
            self.must_commit = True
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
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._lose()
            self._retry_at = now.mono
        else:
            self._fail(code, "the group's coordinator answered with an error")

    def _lose(self) -> None:
        lost = self.owned
        self._forget()
        self._needs_join = True
        if lost:
            self.events.append(Lost(lost))

    def _forget(self) -> None:
        self.stage = Stage.OUT
        self.generation = -1
        self.owned = frozenset()
        self._leads = None
        self._to_revoke = None
        self.must_commit = False
        self._awaits_poll = False
        self._attempt += 1

    def _fail(self, code: ErrorCode, reason: str) -> None:
        lost = self.owned
        self._forget()
        if lost:
            self.events.append(Lost(lost))
        self.failure = Failed(code, reason)
        self.events.append(self.failure)


def _ignore(_answer: Answer, _now: Time) -> None:
    """Whoever leaves does not wait for the answer."""
