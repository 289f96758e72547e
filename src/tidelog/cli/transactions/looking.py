"""What coordinators say of transactional ids, and leaders of producers, in kafka-transactions' columns."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from tidelog.cli.cluster import metadata, reason
from tidelog.cli.options import Refused
from tidelog.cli.table import Column, lines
from tidelog.client.admin import Coordinator, Leader, Target
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.transactions.describe_producers import DescribeProducersRequest, TopicRequest
from tidelog.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest
from tidelog.wire.messages.transactions.list_transactions import ListTransactionsRequest

OF_TRANSACTIONS = 1
"""The kind of coordinator that FindCoordinator is asked for."""


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Every column as wide as its longest cell, with a tab behind it, and `None` where nothing is known."""
    columns = [Column(title, len(title), grows=True) for title in titles]
    for line in lines(columns, ([str(cell) for cell in row] for row in rows), "\t"):
        click.echo(f"{line}\t")


def print_list(admin: Admin, duration_ms: int, pattern: str | None) -> None:
    rows = [
        (each.transactional_id, broker, each.producer_id, each.transaction_state)
        for broker, each in listed(admin, duration_filter=duration_ms, transactional_id_pattern=pattern)
    ]
    print_table(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows)


def listed(admin: Admin, **filters: Any) -> Iterator[tuple[int, Any]]:
    """(broker, ListTransactionsResponse's TransactionState) of every coordinator."""
    for broker in sorted(each.node_id for each in metadata(admin, []).brokers):
        answer = admin.ask(ListTransactionsRequest(**filters), broker)
        if answer.error_code:
            raise Refused(f"Failed to list transactions: {reason(answer.error_code)}")
        for each in answer.transaction_states:
            yield broker, each


def described(admin: Admin, transactional_id: str) -> Any | None:
    """What its coordinator says of the id; None where it knows no such id."""
    target = Coordinator(transactional_id, OF_TRANSACTIONS)
    (state,) = admin.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), target).transaction_states
    if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    if state.error_code:
        raise Refused(f"Failed to describe {transactional_id}: {reason(state.error_code)}")
    return state


def print_transaction(admin: Admin, transactional_id: str) -> None:
    from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest

    state = described(admin, transactional_id)
    if state is None:
        raise Refused(f"There is no transactional id {transactional_id} (TRANSACTIONAL_ID_NOT_FOUND).")
    found = admin.ask(FindCoordinatorRequest(key_type=OF_TRANSACTIONS, coordinator_keys=[transactional_id]), -1)
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
    """Refused where there is no such partition: a leader of it would be waited for."""
    (topic,) = metadata(admin, [partition.topic]).topics
    if partition.partition not in {each.partition_index for each in topic.partitions}:
        raise Refused(f"There is no partition {partition} (UNKNOWN_TOPIC_OR_PARTITION).")


def producers(admin: Admin, partition: TopicPartition, broker: int | None = None) -> list[Any]:
    """DescribeProducersResponse's ProducerState of each producer that the leader's log, or a broker's, knows."""
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=partition.topic, partition_indexes=[partition.partition])]
    )
    check_exists(admin, partition)
    target: Target = Leader(*partition) if broker is None else broker
    answer = admin.ask(request, target).topics[0].partitions[0]
    if answer.error_code:
        where = "leader" if broker is None else f"broker {broker}"
        sentence = reason(answer.error_code, answer.error_message)
        raise Refused(f"Failed to describe producers for partition {partition} on {where}: {sentence}")
    found: list[Any] = answer.active_producers
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
        for each in producers(admin, partition, broker)
    ]
    print_table(columns, rows)
