"""What `tidelog transactions` does, with kafka-transactions' columns."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from tidelog.cli.admin_requests import describe_error, metadata
from tidelog.cli.formatting import Column, table_lines
from tidelog.cli.options import CommandFailed
from tidelog.client.admin import Coordinator, Leader, Target
from tidelog.errors import ErrorCode
from tidelog.explain.core.evidence import MINUTE_MS, OpenTransaction
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.transactions.transaction_admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ProducerState,
    TopicRequest,
)
from tidelog.wire.messages.transactions.transaction_requests import InitProducerIdRequest
from tidelog.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

TRANSACTION_COORDINATOR = 1
"""The key type of FindCoordinator for transaction coordinators."""


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns as wide as their longest cell, each followed by a tab; an unknown value is printed as `None`."""
    columns = [Column(title, len(title), grows=True) for title in titles]
    for line in table_lines(columns, ([str(cell) for cell in row] for row in rows), "\t"):
        click.echo(f"{line}\t")


def print_list(admin: Admin, duration_ms: int, pattern: str | None) -> None:
    rows = [
        (each.transactional_id, broker, each.producer_id, each.transaction_state)
        for broker, each in list_transactions(admin, duration_filter=duration_ms, transactional_id_pattern=pattern)
    ]
    print_table(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows)


def list_transactions(admin: Admin, **filters: Any) -> Iterator[tuple[int, Any]]:
    """(broker, TransactionState of ListTransactionsResponse) for every transaction of every coordinator."""
    for broker in sorted(each.node_id for each in metadata(admin, []).brokers):
        response = admin.ask(ListTransactionsRequest(**filters), broker)
        if response.error_code:
            raise CommandFailed(f"Failed to list transactions: {describe_error(response.error_code)}")
        for each in response.transaction_states:
            yield broker, each


def describe_transaction(admin: Admin, transactional_id: str) -> Any | None:
    """The state of the transactional ID at its coordinator; None if the coordinator does not know the ID."""
    target = Coordinator(transactional_id, TRANSACTION_COORDINATOR)
    (state,) = admin.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), target).transaction_states
    if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    if state.error_code:
        raise CommandFailed(f"Failed to describe {transactional_id}: {describe_error(state.error_code)}")
    return state


def print_transaction(admin: Admin, transactional_id: str) -> None:
    from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest

    state = describe_transaction(admin, transactional_id)
    if state is None:
        raise CommandFailed(f"Transactional ID {transactional_id} does not exist (TRANSACTIONAL_ID_NOT_FOUND).")
    found = admin.ask(FindCoordinatorRequest(key_type=TRANSACTION_COORDINATOR, coordinator_keys=[transactional_id]), -1)
    began = state.transaction_start_time_ms if state.transaction_start_time_ms >= 0 else None
    partitions = [f"{topic.topic}-{index}" for topic in state.topics for index in topic.partitions]
    columns = (
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    )
    row = (
        found.coordinators[0].node_id,
        transactional_id,
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout_ms,
        began,
        None if began is None else int(time.time() * 1000) - began,
        ",".join(partitions),
    )
    print_table(columns, [row])


def check_exists(admin: Admin, partition: TopicPartition) -> None:
    """Raise CommandFailed if the partition does not exist; without this check the client would wait for its leader."""
    (topic,) = metadata(admin, [partition.topic]).topics
    if partition.partition not in {each.partition_index for each in topic.partitions}:
        raise CommandFailed(f"Partition {partition} does not exist (UNKNOWN_TOPIC_OR_PARTITION).")


def describe_producers(admin: Admin, partition: TopicPartition, broker: int | None = None) -> list[Any]:
    """ProducerState of each active producer of the partition, on the leader or on this broker."""
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=partition.topic, partition_indexes=[partition.partition])]
    )
    check_exists(admin, partition)
    target: Target = Leader(*partition) if broker is None else broker
    response = admin.ask(request, target).topics[0].partitions[0]
    if response.error_code:
        where = "leader" if broker is None else f"broker {broker}"
        sentence = describe_error(response.error_code, response.error_message)
        raise CommandFailed(f"Failed to describe producers for partition {partition} on {where}: {sentence}")
    found: list[Any] = response.active_producers
    return found


def print_producers(admin: Admin, partition: TopicPartition, broker: int | None) -> None:
    columns = (
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    )
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
        )
        for each in describe_producers(admin, partition, broker)
    ]
    print_table(columns, rows)


def print_hanging(admin: Admin, given: Mapping[str, Any]) -> None:
    minutes = given["max_transaction_timeout"]
    known = (
        (partition, each)
        for partition in _partitions(admin, given["topic"], given["partition"], given["broker_id"])
        for each in describe_producers(admin, partition, given["broker_id"])
    )
    columns = (
        "Topic",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
    )
    rows = [
        (
            *each.partition,
            each.producer.producer_id,
            each.producer.producer_epoch,
            each.producer.coordinator_epoch,
            each.producer.current_txn_start_offset,
            each.producer.last_timestamp,
            each.age_ms // MINUTE_MS,
        )
        for each in open_transactions(admin, known, minutes * MINUTE_MS)
        if each.hangs(minutes)
    ]
    print_table(columns, rows)


def _partitions(admin: Admin, topic: str | None, index: int | None, broker: int | None) -> list[TopicPartition]:
    if topic is not None and index is not None:
        return [TopicPartition(topic, index)]
    response = metadata(admin, None if topic is None else [topic])
    return [
        TopicPartition(each.name or "", partition.partition_index)
        for each in response.topics
        for partition in each.partitions
        if broker is None or broker in partition.replica_nodes
    ]


def open_transactions(
    admin: Admin, known: Iterable[tuple[TopicPartition, ProducerState]], ms: int
) -> list[OpenTransaction]:
    """The open transactions of these producers whose last record is older than `ms` milliseconds."""
    now_ms = int(time.time() * 1000)
    found = [
        (partition, producer, now_ms - producer.last_timestamp)
        for partition, producer in known
        if producer.current_txn_start_offset >= 0 and now_ms - producer.last_timestamp > ms
    ]
    coordinated = _coordinated_transactions(admin, {producer.producer_id for _, producer, _ in found})
    return [OpenTransaction(*each, coordinated.get((each[1].producer_id, each[0]))) for each in found]


def _coordinated_transactions(admin: Admin, producer_ids: set[int]) -> dict[tuple[int, TopicPartition], str]:
    """The transactional IDs of the transactions that coordinators will end, by producer and partition."""
    if not producer_ids:
        return {}
    states = (
        describe_transaction(admin, each.transactional_id)
        for _, each in list_transactions(admin, producer_id_filters=[*producer_ids])
    )
    return {
        (state.producer_id, TopicPartition(topic.topic, index)): state.transactional_id
        for state in states
        if state is not None
        for topic in state.topics
        for index in topic.partitions
    }


def abort(admin: Admin, partition: TopicPartition, given: Mapping[str, Any]) -> None:
    """Write an abort marker to the partition, as the coordinator would."""
    start = given["start_offset"]
    if start is None:
        producer, epoch, by = given["producer_id"], given["producer_epoch"], given["coordinator_epoch"]
    else:
        found = [each for each in describe_producers(admin, partition) if each.current_txn_start_offset == start]
        if not found:
            raise CommandFailed(
                f"Could not find any open transactions starting at offset {start} on partition {partition}"
            )
        producer, epoch, by = found[0].producer_id, found[0].producer_epoch, found[0].coordinator_epoch
    marker = WritableTxnMarker(
        producer_id=producer,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        coordinator_epoch=max(by, 0),  # -1 if the log has no marker of this producer yet
    )
    response = admin.ask(WriteTxnMarkersRequest(markers=[marker]), Leader(*partition))
    code = response.markers[0].topics[0].partitions[0].error_code
    if code:
        raise CommandFailed(
            f"Failed to abort the transaction of producer {producer} in {partition}: {describe_error(code)}"
        )


def force_terminate(admin: Admin, transactional_id: str) -> None:
    """Initialize the transactional ID as a new producer would, which aborts its transaction and fences its producer."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=MINUTE_MS)
    response = admin.ask(request, Coordinator(transactional_id, TRANSACTION_COORDINATOR))
    if response.error_code:
        raise CommandFailed(
            f"Failed to end the transaction of {transactional_id}: {describe_error(response.error_code)}"
        )
