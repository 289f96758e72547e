"""Transactions that no coordinator will end: found, and aborted by hand."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tidelog.cli.cluster import metadata, reason
from tidelog.cli.options import Refused
from tidelog.cli.transactions.looking import OF_TRANSACTIONS, described, listed, print_table, producers
from tidelog.client.admin import Coordinator, Leader
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

MINUTE_MS = 60_000


class Open(NamedTuple):
    """An open transaction in a partition; `state` is DescribeProducersResponse's ProducerState."""

    partition: TopicPartition
    state: Any


def print_hanging(admin: Admin, given: Mapping[str, Any]) -> None:
    now_ms = int(time.time() * 1000)
    oldest_ms = now_ms - given["max_transaction_timeout"] * MINUTE_MS
    candidates = [
        Open(partition, each)
        for partition in _partitions(admin, given["topic"], given["partition"], given["broker_id"])
        for each in producers(admin, partition, given["broker_id"])
        if each.current_txn_start_offset >= 0 and each.last_timestamp < oldest_ms
    ]
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
            *partition,
            state.producer_id,
            state.producer_epoch,
            state.coordinator_epoch,
            state.current_txn_start_offset,
            state.last_timestamp,
            (now_ms - state.last_timestamp) // MINUTE_MS,
        )
        for partition, state in _without_end(admin, candidates)
    ]
    print_table(columns, rows)


def _partitions(admin: Admin, topic: str | None, index: int | None, broker: int | None) -> list[TopicPartition]:
    if topic is not None and index is not None:
        return [TopicPartition(topic, index)]
    told = metadata(admin, None if topic is None else [topic])
    return [
        TopicPartition(each.name or "", partition.partition_index)
        for each in told.topics
        for partition in each.partitions
        if broker is None or broker in partition.replica_nodes
    ]


def _without_end(admin: Admin, candidates: list[Open]) -> Iterator[Open]:
    """Those whose coordinator knows of no transaction, or of one that is not in this partition."""
    if not candidates:
        return
    ids = sorted({each.state.producer_id for each in candidates})
    names = {state.producer_id: state.transactional_id for _, state in listed(admin, producer_id_filters=ids)}
    expected: dict[str, set[TopicPartition]] = {}
    for name in set(names.values()):
        state = described(admin, name)
        topics = state.topics if state is not None else ()
        expected[name] = {TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions}
    for each in candidates:
        if each.partition not in expected.get(names.get(each.state.producer_id, ""), ()):
            yield each


def abort(admin: Admin, partition: TopicPartition, given: Mapping[str, Any]) -> None:
    """Write an abort marker into the partition, as the coordinator would."""
    start = given["start_offset"]
    if start is None:
        producer, epoch, by = given["producer_id"], given["producer_epoch"], given["coordinator_epoch"]
    else:
        found = [each for each in producers(admin, partition) if each.current_txn_start_offset == start]
        if not found:
            raise Refused(f"Could not find any open transactions starting at offset {start} on partition {partition}")
        producer, epoch, by = found[0].producer_id, found[0].producer_epoch, found[0].coordinator_epoch
    marker = WritableTxnMarker(
        producer_id=producer,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        coordinator_epoch=max(by, 0),  # -1 where no marker of the producer is there yet
    )
    answer = admin.ask(WriteTxnMarkersRequest(markers=[marker]), Leader(*partition))
    code = answer.markers[0].topics[0].partitions[0].error_code
    if code:
        raise Refused(f"Failed to abort the transaction of producer {producer} in {partition}: {reason(code)}")


def force_terminate(admin: Admin, transactional_id: str) -> None:
    """Take the id as a new producer would: what is open is aborted, and its producer fenced."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=MINUTE_MS)
    answer = admin.ask(request, Coordinator(transactional_id, OF_TRANSACTIONS))
    if answer.error_code:
        raise Refused(f"Failed to end the transaction of {transactional_id}: {reason(answer.error_code)}")
