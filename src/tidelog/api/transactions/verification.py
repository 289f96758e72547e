"""A leader verifies with the coordinator that a transaction has the partition, before it begins there (KIP-890).

A guard in the partition's log voids an answer that a marker overtook: its transaction is over. If every end raises the
epoch, no guard is needed: after the marker the log refuses the epoch, and the marker of the *previous* transaction,
which the coordinator waits for, is not a reason to refuse.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.api.context import Context, VerificationRequest
from tidelog.effects import Deferred, Signal
from tidelog.errors import ApiError, ErrorCode
from tidelog.log.producers import Producers
from tidelog.model import TopicPartition
from tidelog.partition.partition import Partition

UNVERIFIED = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The coordinator could not answer: the producer is to come again, without looking for other leaders."""


class Guard(NamedTuple):
    """A partition whose log had these producers when the verification was requested. A log that was truncated or moved
    meanwhile has others, which may know a marker that these missed."""

    partition: Partition
    producers: Producers
    number: int

    def holds(self, producer_id: int) -> bool:
        return self.producers.holds(producer_id, self.number) and self.partition.log.producers is self.producers


class PendingVerification(NamedTuple):
    """A question on its way. Without a guard there is None."""

    question: VerificationRequest
    producer_id: int
    guards: dict[TopicPartition, Guard | None]

    def check(self, partition: TopicPartition, *, abortable: bool) -> None:
        """ApiError unless the partition is in the transaction. `abortable`: the client knows TRANSACTION_ABORTABLE."""
        code = self.question.code(partition)
        guarded = self.guards[partition]
        if guarded is not None and not guarded.holds(self.producer_id) and code == ErrorCode.NONE:
            code = ErrorCode.INVALID_TXN_STATE
        if code == ErrorCode.PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        if code in UNVERIFIED:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction could not be verified: {code.name}")
        if code == ErrorCode.TRANSACTION_ABORTABLE and not abortable:
            code = ErrorCode.INVALID_TXN_STATE
        if code != ErrorCode.NONE:
            raise ApiError(code, "the partition could not be verified to be in the transaction")


def request(
    context: Context,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    partitions: Sequence[Partition],
    *,
    verify_only: bool,
) -> PendingVerification:
    guards = {partition.name: guard(partition, producer_id) if verify_only else None for partition in partitions}
    question = context.broker.verifying.request(
        transactional_id, producer_id, epoch, list(guards), verify_only=verify_only
    )
    return PendingVerification(question, producer_id, guards)


def guard(partition: Partition, producer_id: int) -> Guard:
    producers = partition.log.producers
    return Guard(partition, producers, producers.guard(producer_id))


def wait_for(producer_id: int, deadline: int, resume: Callable[..., Any], arguments: tuple[Any, ...]) -> Deferred:
    return Deferred((Signal(("verified", producer_id)),), deadline, resume, arguments)
