"""A consumer's membership under the consumer protocol (KIP-848). The coordinator assigns partitions; the heartbeat is
the only request: it joins, reports, receives the assignment and leaves.

    OUT → JOINING → ASSIGNING (partitions to revoke, to add or to report) → STABLE → …

A member reaches its target assignment in Kafka's order: it revokes partitions, adds new ones, and reports at once what
it owns; the next epoch comes with the response. `generation` is the member's epoch.
"""

from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping

from tidelog.client.cluster import Cluster
from tidelog.client.coordinator import CoordinatorFinder
from tidelog.client.group.member import NO_GENERATION, Member, MemberState, ignore_answer
from tidelog.client.link import Answer
from tidelog.client.options import ConsumerOptions
from tidelog.client.results import Assigned, Revoked, code_of
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID, Time, TopicPartition, earliest
from tidelog.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2
"""Epochs with a special meaning in requests. A static member that leaves is expected to return."""

_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})

TopicIdPartitions = Mapping[TopicPartition, bytes]
"""Partitions with the IDs of their topics: a topic that was deleted and created again under the same name is a
different one."""


class ConsumerMembership(Member):
    """A member under the consumer protocol."""

    def __init__(self, cluster: Cluster, finder: CoordinatorFinder, group: str, options: ConsumerOptions) -> None:
        super().__init__(cluster, finder, group, options)
        self.member_id = urlsafe_b64encode(cluster.entropy(16)).decode().rstrip("=")
        self._held: TopicIdPartitions = {}  # includes partitions being revoked, until the user polls again
        self._reported: TopicIdPartitions | None = None  # last accepted report; None: report everything
        self._target: frozenset[tuple[bytes, int]] = frozenset()
        self._is_resolved = True  # the names of all topics of the target are known
        self._interval_ms = options.heartbeat_interval_ms
        self._heartbeat_in_flight = False

    # Calls of the consumer.

    def subscribe(self, topics: Collection[str]) -> None:
        """Subscribe to these topics from now on."""
        self.failure = None
        if self.topics != frozenset(topics):
            self.topics = frozenset(topics)
            self._reported = None
            self._heartbeat_at = 0

    def leave(self, reason: str, now: Time) -> None:
        """Leave at once. A static member announces that it will return."""
        del reason
        node = self._finder.node(now)
        if self.state is not MemberState.OUT and node is not None:
            instance = self._options.group_instance_id
            request = ConsumerGroupHeartbeatRequest(
                group_id=self._group,
                member_id=self.member_id,
                member_epoch=LEAVE if instance is None else LEAVE_STATIC,
                instance_id=instance,
            )
            self._cluster.send_request(node, request, ignore_answer, now)
        self._reset()

    def expelled(self, now: Time) -> None:
        """A response says that the group continued without this member."""
        self._lose_partitions()
        self._heartbeat_at = now.mono

    def rebalancing(self) -> None:
        """Nothing to do: heartbeats report it."""

    # Time.

    def _advance_member(self, node: int | None, now: Time) -> None:
        if self.generation != NO_GENERATION:
            self._reconcile(now)
        if node is not None and self._is_polled and not self._heartbeat_in_flight and now.mono >= self._heartbeat_at:
            self._send_heartbeat(node, now)

    @property
    def deadline(self) -> int | None:
        if self.failure is not None or not self.topics:
            return None
        moments = [self._finder.deadline]
        if self.state is not MemberState.OUT:
            moments.append(self._poll_deadline)
        if self._is_polled and not self._heartbeat_in_flight and self._finder.is_known:
            moments.append(self._heartbeat_at)
        return earliest(*moments)

    # Reconciliation with the target assignment.

    def _reconcile(self, now: Time) -> None:
        partitions = self._revocation.take_revoked()
        if partitions:
            self.owned -= partitions
            self.events.append(Revoked(partitions))
        if not self._revocation.is_done:
            return
        held = {partition: topic_id for partition, topic_id in self._held.items() if partition in self.owned}
        wanted = self._resolved_target()
        surplus = frozenset(p for p, topic_id in held.items() if wanted.get(p) != topic_id)
        if surplus:
            self.state = MemberState.ASSIGNING
            self._revocation.start(surplus)
            return
        self._held = wanted
        added = wanted.keys() - self.owned
        if added:
            self.owned |= added
            self._cluster.add_topics({partition.topic for partition in added}, now)
            self.events.append(Assigned(frozenset(added), self.generation))
        is_reported = self._reported == self._held
        self.state = MemberState.STABLE if is_reported and self._is_resolved else MemberState.ASSIGNING
        if not is_reported and self._reported is not None:
            self._heartbeat_at = min(self._heartbeat_at, now.mono)

    def _resolved_target(self) -> dict[TopicPartition, bytes]:
        """The target, without partitions of topics whose names are unknown."""
        names = {self._cluster.metadata.last_id(topic): topic for topic in self.topics}
        names.pop(NO_ID, None)
        self._is_resolved = all(topic_id in names for topic_id, _ in self._target)
        return {
            TopicPartition(names[topic_id], number): topic_id for topic_id, number in self._target if topic_id in names
        }

    # Heartbeats.

    def _send_heartbeat(self, node: int, now: Time) -> None:
        if not self._is_resolved:
            self._cluster.request_metadata_update(now)
        self._heartbeat_in_flight = True
        self._heartbeat_at = now.mono + self._interval_ms
        if self.generation == NO_GENERATION:
            self.state = MemberState.JOINING
        self._attempt += 1
        attempt, reported, topics = self._attempt, dict(self._held), self.topics

        def answered(answer: Answer, now: Time) -> None:
            if attempt == self._attempt:
                self._heartbeat_in_flight = False
                self._heartbeat_answered(answer, reported, now)
                if topics != self.topics:  # they changed while the heartbeat was in flight
                    self._reported = None
                    self._heartbeat_at = now.mono

        self._cluster.send_request(node, self._request(reported), answered, now)

    def _request(self, reported: TopicIdPartitions) -> ConsumerGroupHeartbeatRequest:
        """Everything about the member to join, and again after any error; otherwise only what changed."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=JOIN if self.generation == NO_GENERATION else self.generation,
            instance_id=self._options.group_instance_id,
        )
        if self._reported is None:
            request.rack_id = self._options.client_rack or None
            request.rebalance_timeout_ms = self._options.max_poll_interval_ms
            request.subscribed_topic_names = sorted(self.topics)
            request.server_assignor = self._options.group_remote_assignor
        if reported != self._reported:
            request.topic_partitions = _by_topic_id(reported)
        return request

    def _heartbeat_answered(self, answer: Answer, reported: TopicIdPartitions, now: Time) -> None:
        code = answer.fault or code_of(answer.response.error_code)
        if not code:
            self._apply_response(answer.response, reported, now)
        elif self._finder.handle_error(code, answer.fault, now):
            self._reported = None
            self._heartbeat_at = now.mono + self._backoff.next_ms()
        elif code in _FENCED:
            was_joining = self.state is MemberState.JOINING
            self._lose_partitions()
            self._heartbeat_at = now.mono + (self._backoff.next_ms() if was_joining else 0)
        else:
            reason = answer.response.error_message if answer.response is not None else None
            self._fail(code, reason or "the group refuses this member")

    def _apply_response(self, response: ConsumerGroupHeartbeatResponse, reported: TopicIdPartitions, now: Time) -> None:
        self._backoff.succeeded()
        if self.state is MemberState.JOINING:
            self.state = MemberState.ASSIGNING
        self.generation = response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms
        self._heartbeat_at = now.mono + self._interval_ms
        self._reported = reported
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            self._target = frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)

    # Failures.

    def _reset(self) -> None:
        super()._reset()
        self._held = {}
        self._reported = None
        self._target = frozenset()
        self._is_resolved = True
        self._heartbeat_in_flight = False
        self._heartbeat_at = 0


def _by_topic_id(partitions: TopicIdPartitions) -> list[TopicPartitions]:
    numbers: dict[bytes, list[int]] = {}
    for partition, topic_id in sorted(partitions.items()):
        numbers.setdefault(topic_id, []).append(partition.partition)
    return [TopicPartitions(topic_id=topic_id, partitions=listed) for topic_id, listed in numbers.items()]
