"""Sends proposals of new ISRs to the controller in AlterPartition requests, and applies its answers (KIP-497).

The partition decides who joins and leaves: `propose_shrink` by the clock, `propose_expansion` with a follower's fetch,
`propose_rejoins` when a reason for exclusion is gone. One request is in flight; proposals made meanwhile go into the
next one. A proposal counts for the maximal ISR until it is answered or the controller pushes a newer state.
"""

from collections.abc import Callable, Collection

from tidelog.alarms import Alarm
from tidelog.effects import CONTROLLER, Effect, Event, PeerRequest
from tidelog.errors import ErrorCode
from tidelog.model import Time, TopicPartition
from tidelog.node.replicas import HeldReplicas
from tidelog.partition.leader import Leader, Proposal
from tidelog.partition.partition import Partition
from tidelog.wire.messages.cluster.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionDataResponse,
    TopicData,
)

OWNER = "isr"
RETRY_MS = 100

WITHDRAW = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The ISR was not changed: the proposal is withdrawn. After INELIGIBLE_REPLICA a later fetch proposes it again."""

AWAIT_PUSH = frozenset(
    {
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller has a newer state, and will push it. The proposal may be part of it, because an answer can be lost:
until then both sets count."""


class IsrProposals:
    """`epoch` returns this broker's epoch, `eligible` the brokers that may be in an ISR."""

    def __init__(
        self,
        broker_id: int,
        replicas: HeldReplicas,
        effects: list[Effect],
        epoch: Callable[[], int],
        eligible: Callable[[], Collection[int]],
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._effects = effects
        self._epoch = epoch
        self._eligible = eligible
        self.pending: dict[TopicPartition, Proposal] = {}
        """For the next request; at most one per partition."""
        self._sent: dict[TopicPartition, Proposal] = {}
        """In the request in flight; empty if there is none."""
        self._retry_at: int | None = None
        """No request is sent before this monotonic millisecond."""
        self.alarm = Alarm()
        self.shrinks = 0
        self.expands = 0

    def __repr__(self) -> str:
        return f"<IsrProposals {len(self.pending)} pending, {len(self._sent)} sent>"

    def propose(self, partition: TopicPartition, proposal: Proposal) -> None:
        self.pending[partition] = proposal
        self.alarm.set(self.next_deadline)

    def pump(self, now: Time) -> None:
        """Send what is pending, unless a request is in flight or a retry is not due."""
        if self._sent or not self.pending or (self._retry_at is not None and now.mono < self._retry_at):
            return
        self._retry_at = None
        topics: dict[bytes, TopicData] = {}
        for name, proposal in self.pending.items():
            partition = self._replicas.get(*name)
            if partition is None or not _is_current(partition, proposal):
                continue  # the role changed, or a push replaced the proposal
            topic_id = partition.log.topic_id
            topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id, partitions=[]))
            topic.partitions.append(_partition_data(partition, proposal))
            self._sent[name] = proposal
        self.pending = {}
        self.alarm.set(None)
        if topics:
            request = AlterPartitionRequest(
                broker_id=self._broker_id, broker_epoch=self._epoch(), topics=list(topics.values())
            )
            self._effects.append(PeerRequest(CONTROLLER, request, OWNER, 0))

    def answered(self, response: AlterPartitionResponse | None, now: Time) -> None:
        """The controller's response, None if it did not answer. What it does not name is sent again."""
        sent, self._sent = self._sent, {}
        if response is None or response.error_code:
            self._retry(sent, now)
            return
        for topic in response.topics:
            name = self._replicas.topic_name(topic.topic_id)
            for answer in topic.partitions:
                key = TopicPartition(name or "", answer.partition_index)
                proposal = sent.pop(key, None)
                partition = self._replicas.get(*key)
                if proposal is not None and partition is not None:
                    self._handle_answer(partition, proposal, answer, now)
        self._retry(sent, now)

    def _retry(self, unanswered: dict[TopicPartition, Proposal], now: Time) -> None:
        if unanswered:
            self.pending = {**unanswered, **self.pending}
            self._retry_at = now.mono + RETRY_MS
            self.alarm.set(self._retry_at)

    def _handle_answer(
        self, partition: Partition, proposal: Proposal, answer: PartitionDataResponse, now: Time
    ) -> None:
        code = answer.error_code
        if code in WITHDRAW:
            partition.proposal_refused(proposal)
            partition.advance(now, self._eligible())  # rule 1: the replicas that would have joined no longer count
        elif code in AWAIT_PUSH:
            return
        elif code:
            self._retry({partition.name: proposal}, now)
        else:
            self._commit(partition, proposal, answer, now)

    def _commit(self, partition: Partition, proposal: Proposal, answer: PartitionDataResponse, now: Time) -> None:
        """The controller stored the ISR; an answer for another leader epoch is ignored."""
        before = partition.role.isr if isinstance(partition.role, Leader) else ()
        if answer.leader_epoch != partition.epoch:
            return
        if partition.proposal_accepted(proposal, answer.isr, answer.partition_epoch, answer.elr):
            partition.mark_dirty()
            partition.advance(now, self._eligible())  # rule 1: replicas that left no longer count
            kind = "isr.shrink" if len(answer.isr) < len(before) else "isr.expand"
            self.shrinks += kind == "isr.shrink"
            self.expands += kind == "isr.expand"
            fields = {
                "partition": str(partition.name),
                "isr": list(answer.isr),
                "epoch": partition.epoch,
                "partition_epoch": partition.partition_epoch,
            }
            self._effects.append(Event(kind, {"broker": self._broker_id, **fields}))

    @property
    def next_deadline(self) -> int | None:
        return self._retry_at if self.pending else None


def _is_current(partition: Partition, proposal: Proposal) -> bool:
    return isinstance(partition.role, Leader) and partition.role.proposal is proposal


def _partition_data(partition: Partition, proposal: Proposal) -> PartitionData:
    return PartitionData(
        partition_index=partition.name.partition,
        leader_epoch=partition.epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=member, broker_epoch=proposal.broker_epochs[member]) for member in proposal.isr
        ],
        partition_epoch=proposal.partition_epoch,
    )
