"""Questions to coordinators of transactions: is this partition in the transaction, or let it be (KIP-890).

A producer's requests keep their order: while a question about it is open, its next ones wait for the answer too
(`is_busy`). What a handler waits for is `Signal(("verified", producer id))`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tidelog.controller.image import ClusterImage
from tidelog.coordinator.placement import partition_for
from tidelog.effects import Effect, PeerRequest
from tidelog.errors import ErrorCode
from tidelog.model import NO_LEADER, TRANSACTION_TOPIC, TopicPartition
from tidelog.wire.messages.transactions.transaction_requests import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

OWNER = "verification"


@dataclass(slots=True, eq=False)
class VerificationRequest:
    """`codes` is None until it is answered; a partition without a code was not answered for."""

    producer_id: int
    partitions: tuple[TopicPartition, ...]
    codes: dict[TopicPartition, ErrorCode] | None = None
    fault: ErrorCode = ErrorCode.NETWORK_EXCEPTION

    def code(self, partition: TopicPartition) -> ErrorCode:
        return self.fault if self.codes is None else self.codes.get(partition, self.fault)


@dataclass(slots=True)
class Verifying:
    """`wake` gives the signal that a producer's question was answered."""

    image: ClusterImage
    effects: list[Effect]
    wake: Callable[[int], None]
    _open: dict[int, VerificationRequest] = field(default_factory=dict)
    _busy: dict[int, VerificationRequest] = field(default_factory=dict)
    _tokens: Any = field(default_factory=lambda: count(1))

    def __repr__(self) -> str:
        return f"<Verifying {len(self._open)} questions>"

    def is_busy(self, producer_id: int) -> bool:
        return producer_id in self._busy

    def request(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        verify_only: bool,
    ) -> VerificationRequest:
        """Whether the partitions are in the producer's transaction; without `verify_only` they are from now on."""
        question = VerificationRequest(producer_id, tuple(partitions))
        self._busy[producer_id] = question
        token = next(self._tokens)
        self._open[token] = question
        topics: dict[str, list[int]] = {}
        for topic, partition in question.partitions:
            topics.setdefault(topic, []).append(partition)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
        )
        coordinator = self._coordinator(transactional_id)
        self.effects.append(
            PeerRequest(coordinator, AddPartitionsToTxnRequest(transactions=[transaction]), OWNER, token)
        )
        return question

    def _coordinator(self, transactional_id: str) -> int:
        """NO_LEADER if the coordinator is unknown; such a request gets no answer."""
        topic = self.image.topics.get(TRANSACTION_TOPIC)
        if topic is None:
            return NO_LEADER
        found = topic.partitions.get(partition_for(transactional_id, len(topic.partitions)))
        return NO_LEADER if found is None else found.leader

    def answered(self, token: int, response: Any) -> None:
        question = self._open.pop(token)
        if response is not None and response.error_code:
            question.fault = ErrorCode(response.error_code)
        if response is not None:
            question.codes = {
                TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
                for transaction in response.results_by_transaction
                for topic in transaction.topic_results
                for partition in topic.results_by_partition
            }
        if self._busy.get(question.producer_id) is question:
            del self._busy[question.producer_id]
        self.wake(question.producer_id)
