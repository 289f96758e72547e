"""Transactions that no coordinator will end: found, and aborted by hand."""

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tidelog.cli.cluster import metadata, reason
from tidelog.cli.options import Refused
from tidelog.cli.transactions.command import HANGING_AFTER_MINUTES
from tidelog.cli.transactions.looking import OF_TRANSACTIONS, described, listed, print_table, producers
from tidelog.client.admin import Coordinator, Leader
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.transactions.describe_producers import ProducerState
from tidelog.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

MINUTE_MS = 60_000


class Open(NamedTuple):
    """A transaction that is open in a partition. `age_ms` is counted from its last record; `transactional_id` is None
    where no coordinator knows of it, or knows that it is in this partition: so nobody will end it."""

    partition: TopicPartition
    producer: ProducerState
    age_ms: int
    transactional_id: str | None

    def hangs(self, after_minutes: int = HANGING_AFTER_MINUTES) -> bool:
        return self.transactional_id is None and self.age_ms > after_minutes * MINUTE_MS


def print_hanging(admin: Admin, given: Mapping[str, Any]) -> None:
    minutes = given["max_transaction_timeout"]
    known = (
        (partition, each)
        for partition in _partitions(admin, given["topic"], given["partition"], given["broker_id"])
        for each in producers(admin, partition, given["broker_id"])
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
        for each in open_for(admin, known, minutes * MINUTE_MS)
        if each.hangs(minutes)
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


def open_for(admin: Admin, known: Iterable[tuple[TopicPartition, ProducerState]], ms: int) -> list[Open]:
    """Those of the known producers' transactions that got no record for longer than so many milliseconds."""
    now_ms = int(time.time() * 1000)
    found = [
        (partition, producer, now_ms - producer.last_timestamp)
        for partition, producer in known
        if producer.current_txn_start_offset >= 0 and now_ms - producer.last_timestamp > ms
    ]
    owners = _owners(admin, {producer.producer_id for _, producer, _ in found})
    return [Open(*each, owners.get((each[1].producer_id, each[0]))) for each in found]


def _owners(admin: Admin, producer_ids: set[int]) -> dict[tuple[int, TopicPartition], str]:
    """The transactional ids of what the coordinators will end, by producer and partition."""
    if not producer_ids:
        return {}
    states = (described(admin, each.transactional_id) for _, each in listed(admin, producer_id_filters=[*producer_ids]))
    return {
        (state.producer_id, TopicPartition(topic.topic, index)): state.transactional_id
        for state in states
        if state is not None
        for topic in state.topics
        for index in topic.partitions
    }


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
