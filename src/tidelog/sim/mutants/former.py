"""Former defects of brokers and clients: each is a function as it was before the fix, over the core of today."""

# ruff: noqa: ARG001, SLF001  (a replacement has the parameters of what it replaces, and its place inside)

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from tidelog.api.context import Push
from tidelog.client.options import KNOWN_BATCHES
from tidelog.client.sending.batch import ProducerBatch
from tidelog.client.sending.sequences import Sequences
from tidelog.controller.commands.elections import RETRY_MS, LogEnds
from tidelog.controller.leaders import Life
from tidelog.controller.state import Partition as Led
from tidelog.coordinator.contract import Result
from tidelog.coordinator.group.coordinator import GroupCoordinator
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.offset_table import Committed
from tidelog.coordinator.transaction import operations
from tidelog.coordinator.transaction.machine import HeldRequest, TransactionMachine
from tidelog.coordinator.transaction.operations import (
    AddPartitions,
    AddPartitionsResult,
    EndTransaction,
    EndTransactionResult,
    _checked_transaction,
)
from tidelog.coordinator.transaction.transaction import RAISES_EPOCH, Transaction, TransactionState
from tidelog.effects import Effect
from tidelog.errors import ApiError, ErrorCode
from tidelog.log.epochs import EpochCache, EpochEntry, EpochRun
from tidelog.log.producers import AppendedBatch, Producers
from tidelog.model import NO_ID, Time, TopicPartition
from tidelog.node.controller_pushes import UNNUMBERED, Assignments, PushOrder
from tidelog.node.coordinating import LOAD_BYTES, Coordinating, Loading
from tidelog.partition.partition import Partition
from tidelog.wire.messages.cluster.controller_pushes import LeaderAndIsrPartitionState, LeaderAndIsrTopicState
from tidelog.wire.records import BatchHeader, batches

take = PushOrder.accept
stop = Assignments.stop
create = Assignments._create
forget = GroupCoordinator.topics_deleted
check = Producers.check
end = operations.end


# What controllers push.


def overtaken_by_epoch(order: PushOrder, push: Push) -> bool:
    """For `PushOrder.is_stale`: within a controller's epoch, accept pushes in any order."""
    order.confirmed = max(order.confirmed, order._controller.known_epoch)
    return push.controller_epoch < order._taken[0]


def take_in_any_order(order: PushOrder, push: Push) -> ErrorCode:
    """For `PushOrder.accept`, as above."""
    order._taken = (order._taken[0], UNNUMBERED)
    return take(order, push)


def take_from_anybody(order: PushOrder, push: Push) -> ErrorCode:
    """For `PushOrder.accept`: accept a higher epoch as the controller's, whatever the store says."""
    order.confirmed = max(order.confirmed, push.controller_epoch)
    return take(order, push)


def stop_by_name(
    assignments: Assignments, name: TopicPartition, leader_epoch: int, *, delete: bool, topic_id: bytes = NO_ID
) -> ErrorCode:
    """For `Assignments.stop`: stop the replica of whichever topic has the name."""
    return stop(assignments, name, leader_epoch, delete=delete)


def create_by_name(
    assignments: Assignments, topic: LeaderAndIsrTopicState, state: LeaderAndIsrPartitionState, now: Time
) -> Partition | ErrorCode:
    """For `Assignments._create`: delete a replica of another topic of that name, though nobody requested it."""
    held = assignments._replicas.get(topic.topic_name, state.partition_index)
    if held is not None and held.log.topic_id != topic.topic_id:
        assignments._replicas.delete(held.name)
    return create(assignments, topic, state, now)


# Elections.


def holds_whatever_is_missing(life: Life, recorded: int) -> bool:
    """For `Life.holds`: log directories may be missing or new."""
    return True


def nothing_is_missing(assignments: Assignments, name: TopicPartition, state: LeaderAndIsrPartitionState) -> bool:
    """For `Assignments._may_be_in_missing_folder`."""
    return False


def answered_for_any_life(ends: LogEnds, token: int, response: object, now: int) -> list[Led]:
    """For `LogEnds.answered`: accept a log end from any life of the broker."""
    broker, partitions = ends.flights.pop(token)
    requested = {partition.name: partition for partition in partitions}
    for topic in getattr(response, "topics", ()):
        for reported in topic.partitions:
            partition = requested.get((topic.topic, reported.partition))  # type: ignore[call-overload]
            if partition in ends.wanted and broker in ends.wanted[partition] and not reported.error_code:
                ends.known[partition][broker] = reported.leader_epoch, reported.end_offset
    if any(broker in ends.wanted.get(each, ()) and broker not in ends.known[each] for each in partitions):
        ends.retry_at = now + RETRY_MS
    return [each for each in partitions if each in ends.wanted and ends.wanted[each].keys() == ends.known[each].keys()]


# Logs.


def epochs_of_batches(checkpoint: Iterable[EpochEntry], runs: Sequence[EpochRun]) -> EpochCache:
    """For `agreed`: take epochs from the batches that are read again, not from the checkpoint."""
    known = EpochCache(entry for entry in checkpoint if not runs or entry.start_offset < runs[0].start_offset)
    for run in runs:
        if run.epoch > known.latest:
            known.assign(run.epoch, run.start_offset)
    return known


def check_of_any_version(
    producers: Producers, batch: BatchHeader, *, from_client: bool = True, transaction_version: int = 0
) -> AppendedBatch | None:
    """For `Producers.check`: an unknown producer may begin anywhere, also in a transaction of version 2."""
    return check(producers, batch, from_client=from_client)


# Coordinators.


def load_unexamined(coordinating: Coordinating, loading: Loading, now: Time) -> None:
    """For `Coordinating._load`: replay without verifying checksums, and end where the log is unreadable."""
    partition, coordinator = loading.partition, coordinating._coordinators[loading.partition.name.topic]
    log = partition.log
    while loading.offset < log.log_end_offset:
        piece = log.read(loading.offset, LOAD_BYTES, log.log_end_offset, at_least_one=True)
        if piece is None:
            return
        data = piece.file.read(piece.position, piece.length)
        try:
            found = list(batches(memoryview(data)))
            coordinating._effects.extend(coordinator.load(partition.name.partition, [data], now))
        except ApiError:
            return
        if not found:
            return
        loading.offset = found[-1].next_offset


def forget_what_is_gone(groups: GroupCoordinator, topics: Iterable[str], now: Time) -> list[Effect]:
    """For `GroupCoordinator.topics_deleted`: a topic whose name is still in the cluster was never deleted."""
    return forget(groups, [topic for topic in topics if topic not in groups._cluster.topics], now)


def is_of_another_id(machine: GroupMachine, committed: Committed, name: str, request: bytes) -> bool:
    """For `_is_of_another_topic`: a request without an ID means any topic that had the name."""
    return NO_ID not in (committed.topic_id, request) and committed.topic_id != request


def already_from_memory(transaction: Transaction, request: EndTransaction) -> Result:
    """For `_repeat_end`: answer from memory, whether or not this coordinator was replaced."""
    if transaction.is_commit != request.commit:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return Result(EndTransactionResult(ErrorCode.NONE, transaction.producer_id, transaction.epoch))


def add_from_memory(
    machine: TransactionMachine, request: AddPartitions, token: int, refuse: Callable[[ErrorCode], Any]
) -> Result:
    """For `add`: do not write partitions again that are in the remembered transaction."""
    transaction = _checked_transaction(machine, request)
    if transaction.is_prepared:
        held = HeldRequest(token, partial(add_from_memory, machine, request, token, refuse), refuse)
        machine.hold(request.transactional_id, held)
        return Result()
    if transaction.state is TransactionState.ONGOING and request.partitions <= transaction.partitions:
        return Result(AddPartitionsResult(ErrorCode.NONE))
    return machine.change(
        AddPartitionsResult(ErrorCode.NONE),
        transaction.with_partitions(request.partitions, machine.wall, request.version),
    )


def end_is_fenced_while_markers_go_out(machine: TransactionMachine, request: EndTransaction) -> Result:
    """For `end`: the next epoch counts only once the previous transaction is complete, though it was
    returned before.
    """
    transaction = machine.find(request.transactional_id)
    raises = request.version >= RAISES_EPOCH
    if transaction is not None and not (raises and operations._is_retry(transaction, request)):
        if transaction.producer_id != request.producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if request.epoch != transaction.epoch or (transaction.is_prepared and raises):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
    return end(machine, request)


# Our producer.


def may_send_unacknowledged(sequences: Sequences, batch: ProducerBatch) -> bool:
    """For `Sequences.may_send`: five batches may be in flight before the first is acknowledged."""
    numbers = sequences.of(batch.partition)
    if batch.has_sequence:
        return numbers.in_flight[0] is batch and not numbers.must_restart
    if len(numbers.in_flight) >= KNOWN_BATCHES:
        return False
    return numbers.is_settled and (numbers.producer_id, numbers.epoch) == (sequences.producer_id, sequences.epoch)
