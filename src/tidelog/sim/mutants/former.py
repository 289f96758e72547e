"""Defects that brokers and clients once had, put back: each is a function as it was before it was mended, over the core
of today."""

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
from tidelog.wire.messages.cluster.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrTopicState
from tidelog.wire.records import BatchHeader, batches

take = PushOrder.accept
stop = Assignments.stop
assign = Assignments._partition
forget = GroupCoordinator.topics_deleted
check = Producers.check
end = operations.end


# What controllers push.


def overtaken_by_epoch(order: PushOrder, push: Push) -> bool:
    """For `PushOrder.is_stale`: within a controller's epoch every push counts as new."""
    order.confirmed = max(order.confirmed, order._controller.known_epoch)
    return push.controller_epoch < order._taken[0]


def take_in_any_order(order: PushOrder, push: Push) -> ErrorCode:
    """For `PushOrder.accept`, as above."""
    order._taken = (order._taken[0], UNNUMBERED)
    return take(order, push)


def take_from_anybody(order: PushOrder, push: Push) -> ErrorCode:
    """For `PushOrder.accept`: a sender with a higher epoch is the controller, whatever the store holds."""
    order.confirmed = max(order.confirmed, push.controller_epoch)
    return take(order, push)


def stop_by_name(
    assignments: Assignments, name: TopicPartition, leader_epoch: int, *, delete: bool, topic_id: bytes = NO_ID
) -> ErrorCode:
    """For `Assignments.stop`: whichever topic has the name is meant."""
    return stop(assignments, name, leader_epoch, delete=delete)


def assign_by_name(
    assignments: Assignments, topic: LeaderAndIsrTopicState, state: LeaderAndIsrPartitionState, now: Time
) -> ErrorCode:
    """For `Assignments._partition`: a replica of another topic of that name goes, though nobody said so."""
    held = assignments._replicas.get(topic.topic_name, state.partition_index)
    if held is not None and held.log.topic_id != topic.topic_id:
        assignments._replicas.delete(held.name)
    return assign(assignments, topic, state, now)


# Elections.


def holds_whatever_is_missing(life: Life, recorded: int) -> bool:
    """For `Life.holds`: log directories may be gone, or be new ones."""
    return True


def nothing_is_missing(assignments: Assignments, name: TopicPartition, state: LeaderAndIsrPartitionState) -> bool:
    """For `Assignments._may_be_in_missing_folder`."""
    return False


def answered_for_any_life(ends: LogEnds, token: int, response: object, now: int) -> list[Led]:
    """For `LogEnds.answered`: the end of a log is the broker's, in whichever life it told it."""
    broker, partitions = ends.flights.pop(token)
    asked = {partition.name: partition for partition in partitions}
    for topic in getattr(response, "topics", ()):
        for told in topic.partitions:
            partition = asked.get((topic.topic, told.partition))  # type: ignore[call-overload]
            if partition in ends.wanted and broker in ends.wanted[partition] and not told.error_code:
                ends.known[partition][broker] = told.leader_epoch, told.end_offset
    if any(broker in ends.wanted.get(each, ()) and broker not in ends.known[each] for each in partitions):
        ends.retry_at = now + RETRY_MS
    return [each for each in partitions if each in ends.wanted and ends.wanted[each].keys() == ends.known[each].keys()]


# Logs.


def epochs_of_batches(checkpoint: Iterable[EpochEntry], runs: Sequence[EpochRun]) -> EpochCache:
    """For `agreed`: of what is read again only the batches tell epochs, not the checkpoint."""
    known = EpochCache(entry for entry in checkpoint if not runs or entry.start_offset < runs[0].start_offset)
    for run in runs:
        if run.epoch > known.latest:
            known.assign(run.epoch, run.start_offset)
    return known


def check_of_any_version(
    producers: Producers, batch: BatchHeader, *, from_client: bool = True, transaction_version: int = 0
) -> AppendedBatch | None:
    """For `Producers.check`: a producer that is not known may begin anywhere, in a transaction of version 2, too."""
    return check(producers, batch, from_client=from_client)


# Coordinators.


def load_unexamined(coordinating: Coordinating, loading: Loading, now: Time) -> None:
    """For `Coordinating._load`: what is replayed is not held against its checksums, and ends where it is unreadable."""
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
    """For `GroupCoordinator.topics_deleted`: a topic whose name never left the cluster was never deleted."""
    return forget(groups, [topic for topic in topics if topic not in groups._cluster.topics], now)


def is_of_another_id(machine: GroupMachine, committed: Committed, name: str, asked: bytes) -> bool:
    """For `_is_of_another_topic`: a request that names no id means any topic that had the name."""
    return NO_ID not in (committed.topic_id, asked) and committed.topic_id != asked


def already_from_memory(machine: TransactionMachine, transaction: Transaction, asked: EndTransaction) -> Result:
    """For `_repeat_end`: what this coordinator remembers is true, whether or not it was replaced."""
    if transaction.is_commit != asked.commit:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return Result(EndTransactionResult(ErrorCode.NONE, transaction.producer_id, transaction.epoch))


def add_from_memory(
    machine: TransactionMachine, asked: AddPartitions, token: int, refuse: Callable[[ErrorCode], Any]
) -> Result:
    """For `add`: what is in the transaction as it is remembered need not be written again."""
    transaction = _checked_transaction(machine, asked)
    if transaction.is_prepared:
        held = HeldRequest(token, partial(add_from_memory, machine, asked, token, refuse), refuse)
        machine.hold(asked.transactional_id, held)
        return Result()
    if transaction.state is TransactionState.ONGOING and asked.partitions <= transaction.partitions:
        return Result(AddPartitionsResult(ErrorCode.NONE))
    return machine.change(
        AddPartitionsResult(ErrorCode.NONE), transaction.with_partitions(asked.partitions, machine.wall, asked.version)
    )


def end_is_fenced_while_markers_go_out(machine: TransactionMachine, asked: EndTransaction) -> Result:
    """For `end`: the next epoch counts from when the transaction before is complete, though it was told before."""
    transaction = machine.find(asked.transactional_id)
    raises = asked.version >= RAISES_EPOCH
    if transaction is not None and not (raises and operations._is_retry(transaction, asked)):
        if transaction.producer_id != asked.producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if asked.epoch != transaction.epoch or (transaction.is_prepared and raises):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
    return end(machine, asked)


# Our producer.


def may_send_unacknowledged(sequences: Sequences, batch: ProducerBatch) -> bool:
    """For `Sequences.may_send`: five may be on their way before the first is acknowledged."""
    numbers = sequences.of(batch.partition)
    if batch.has_sequence:
        return numbers.in_flight[0] is batch and not numbers.must_restart
    if len(numbers.in_flight) >= KNOWN_BATCHES:
        return False
    return numbers.is_settled and (numbers.producer_id, numbers.epoch) == (sequences.producer_id, sequences.epoch)
