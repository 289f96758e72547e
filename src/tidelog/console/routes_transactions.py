"""Transactions: open ones, those that nothing will end, and aborting them."""

import asyncio
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from tidelog.cli.transaction_actions import (
    TRANSACTION_COORDINATOR,
    abort,
    force_terminate,
    open_transactions,
)
from tidelog.client.admin import Coordinator
from tidelog.console.console import Console, Query, Refused
from tidelog.console.routes_topics import confirm
from tidelog.errors import ApiError
from tidelog.explain.core import HANGING_AFTER_MINUTES
from tidelog.model import TopicPartition
from tidelog.wire.messages.transactions.transaction_admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ProducerState,
    TopicRequest,
)

ANSWER_MS = 5_000
MOST_DESCRIBED = 100
OVER = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


async def transactions(console: Console, query: Query) -> Any:
    """The transactional IDs of every coordinator; of open transactions, since when and in which partitions."""
    seen = console.observer
    find, rows = query.text("find", "").lower(), []
    for broker in [view.id for view in seen.brokers.values() if view.answers]:
        answer = await seen.admin.ask(ListTransactionsRequest(), broker, timeout_ms=ANSWER_MS, retries=False)
        rows += [
            {"id": each.transactional_id, "coordinator": broker, "producer_id": each.producer_id,
             "state": each.transaction_state, "open": each.transaction_state not in OVER}
            for each in answer.transaction_states
            if find in each.transactional_id.lower()
        ]  # fmt: skip
    rows.sort(key=lambda row: (not row["open"], row["id"]))
    described = [row for row in rows if row["open"]][:MOST_DESCRIBED]
    details = await asyncio.gather(*(_described(console, row["id"]) for row in described))
    for row, detail in zip(described, details, strict=True):
        row.update(detail)
    return {"total": len(rows), "rows": rows[:500]}


async def _described(console: Console, transactional_id: str) -> dict[str, Any]:
    target = Coordinator(transactional_id, TRANSACTION_COORDINATOR)
    try:
        answer = await console.admin.ask(
            DescribeTransactionsRequest(transactional_ids=[transactional_id]), target, timeout_ms=ANSWER_MS
        )
    except ApiError:
        return {}
    (state,) = answer.transaction_states
    if state.error_code:
        return {}
    return {
        "since": state.transaction_start_time_ms,
        "timeout_ms": state.transaction_timeout_ms,
        "producer_epoch": state.producer_epoch,
        "partitions": [f"{topic.topic}-{index}" for topic in state.topics for index in topic.partitions],
    }


async def hanging(console: Console, query: Query) -> Any:
    """Open transactions in the logs whose last record is old, and whether a coordinator will end them."""
    minutes = query.number("minutes", HANGING_AFTER_MINUTES, least=0, most=10**6)
    known = await _open_producers(console)
    found = await console.blocking(open_transactions, console.bridged, known, minutes * 60_000)
    now_ms = time.time_ns() // 1_000_000
    return {
        "rows": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "producer_id": each.producer.producer_id,
                "producer_epoch": each.producer.producer_epoch,
                "start_offset": each.producer.current_txn_start_offset,
                "last": now_ms - each.age_ms,
                "transactional_id": each.transactional_id,
                "hangs": each.hangs(minutes),
            }
            for each in found
        ]
    }


async def _open_producers(console: Console) -> list[tuple[TopicPartition, ProducerState]]:
    """The producers with an open transaction, from the leaders of all partitions."""
    topology = console.observer.topology
    led: dict[int, dict[str, list[int]]] = {}
    for name, partition in topology.all_partitions() if topology is not None else ():
        if console.observer.answers(partition.leader_id):
            led.setdefault(partition.leader_id, {}).setdefault(name.topic, []).append(name.partition)
    found: list[tuple[TopicPartition, ProducerState]] = []
    for leader, topics in led.items():
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=topic, partition_indexes=indexes) for topic, indexes in topics.items()]
        )
        answer = await console.admin.ask(request, leader, timeout_ms=ANSWER_MS, retries=False)
        found += _open_in(answer.topics)
    return found


def _open_in(topics: Iterable[Any]) -> Iterable[tuple[TopicPartition, ProducerState]]:
    for topic in topics:
        for each in topic.partitions:
            for producer in each.active_producers:
                if producer.current_txn_start_offset >= 0:
                    yield TopicPartition(topic.name, each.partition_index), producer


async def abort_transaction(console: Console, query: Query) -> Any:
    """End the transaction of a transactional ID, which fences its producer; or abort one in a partition."""
    if query.has("id"):
        name = query.text("id")
        confirm(query, name)
        await console.blocking(force_terminate, console.bridged, name)
        return {}
    topic = query.text("topic")
    confirm(query, topic)
    partition = TopicPartition(topic, query.number("partition", least=0))
    if console.observer.topology is None or console.observer.topology.partition(partition) is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"Partition {partition} does not exist.")
    given = {"start_offset": query.number("start_offset", least=0)}
    await console.blocking(abort, console.bridged, partition, given)
    return {}
