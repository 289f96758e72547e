"""Sending markers: which broker writes which, and what its response means.

All markers that are due for one broker go in one request. A deleted partition needs no marker. If a leader refuses for
now, or does not answer, its markers are sent again to the leader at that time. If a leader knows a newer coordinator,
or a newer epoch of the producer, this coordinator stops sending: another one decides.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tidelog import effects
from tidelog.coordinator.shard import ShardContext
from tidelog.coordinator.transaction.machine import TransactionMachine
from tidelog.coordinator.transaction.transaction import Transaction
from tidelog.errors import ErrorCode
from tidelog.model import NO_LEADER, TopicPartition
from tidelog.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

OWNER = "markers"
IN_FLIGHT = 5
"""Requests to one broker at a time; markers that become due meanwhile are combined in the next request."""

DONE = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
OVERTAKEN = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})

FindLeader = Callable[[TopicPartition, TopicPartition, int], int | None]
"""The broker that leads a partition, NO_LEADER if none does at present, None if the partition does not exist. Called
with the coordinator's own partition and leader epoch, because the metadata of a new coordinator may not be complete
yet."""


class MarkerWork(NamedTuple):
    """One transaction's markers for one broker."""

    machine: TransactionMachine
    transaction: Transaction
    partitions: list[TopicPartition]


class Markers:
    """The queue of each broker, and the unanswered requests."""

    def __init__(self, context: ShardContext, find: FindLeader) -> None:
        self._context = context
        self._find = find
        self._queues: dict[int, list[MarkerWork]] = {}
        self._sent: dict[int, tuple[int, list[MarkerWork]]] = {}
        self._in_flight: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<Markers {sum(map(len, self._queues.values()))} queued, {len(self._sent)} requests>"

    def send(self, machine: TransactionMachine, transaction: Transaction, partitions: Iterable[TopicPartition]) -> None:
        """Queue the transaction's markers by leader; `flush` sends them."""
        by_broker: dict[int, list[TopicPartition]] = {}
        gone: list[TopicPartition] = []
        leaderless = False
        for partition in partitions:
            leader = self._find(partition, machine.shard.partition, machine.shard.epoch)
            if leader is None:
                gone.append(partition)
            elif leader == NO_LEADER:
                leaderless = True
            else:
                by_broker.setdefault(leader, []).append(partition)
        for broker, led in by_broker.items():
            self._queues.setdefault(broker, []).append(MarkerWork(machine, transaction, led))
        if gone or leaderless:
            machine.markers_written(transaction.transactional_id, gone, retry=leaderless)

    def flush(self) -> None:
        for broker in [broker for broker in self._queues if self._in_flight.get(broker, 0) < IN_FLIGHT]:
            works = [work for work in self._queues.pop(broker) if _is_current(work)]
            if works:
                token = next(self._context.tokens)
                self._sent[token] = (broker, works)
                self._in_flight[broker] = self._in_flight.get(broker, 0) + 1
                request = WriteTxnMarkersRequest(markers=[_marker(work) for work in works])
                self._context.effects.append(effects.PeerRequest(broker, request, OWNER, token))

    def answered(self, token: int, response: WriteTxnMarkersResponse | None) -> None:
        broker, works = self._sent.pop(token)
        self._in_flight[broker] -= 1
        if not self._in_flight[broker]:
            del self._in_flight[broker]
        codes = {} if response is None else dict(_codes(response))
        for work in works:
            if _is_current(work):
                _apply_codes(work, codes)


def _is_current(work: MarkerWork) -> bool:
    shard, transactional_id = work.machine.shard, work.transaction.transactional_id
    return shard.is_alive and work.machine.find(transactional_id) is work.transaction


def _marker(work: MarkerWork) -> WritableTxnMarker:
    transaction = work.transaction
    topics: dict[str, list[int]] = {}
    for topic, partition in work.partitions:
        topics.setdefault(topic, []).append(partition)
    return WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_result=transaction.is_commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=work.machine.shard.epoch,
        transaction_version=transaction.version,
    )


def _codes(response: WriteTxnMarkersResponse) -> Iterator[tuple[tuple[int, TopicPartition], int]]:
    for marker in response.markers:
        for topic in marker.topics:
            for partition in topic.partitions:
                yield (marker.producer_id, TopicPartition(topic.name, partition.partition_index)), partition.error_code


def _apply_codes(work: MarkerWork, codes: dict[tuple[int, TopicPartition], Any]) -> None:
    """A partition that the response does not name is retried."""
    codes_by_partition = {
        partition: codes.get((work.transaction.producer_id, partition), ErrorCode.NETWORK_EXCEPTION)
        for partition in work.partitions
    }
    overtaken = [partition for partition, code in codes_by_partition.items() if code in OVERTAKEN]
    if overtaken:
        work.machine.shard.event(
            "transaction.overtaken",
            level="warning",
            transactional_id=work.transaction.transactional_id,
            epoch=work.transaction.epoch,
            partitions=[str(partition) for partition in overtaken],
        )
        return
    done = [partition for partition, code in codes_by_partition.items() if code in DONE]
    work.machine.markers_written(work.transaction.transactional_id, done, retry=len(done) < len(codes_by_partition))
