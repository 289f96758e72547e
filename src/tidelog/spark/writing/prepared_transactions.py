"""Ending transactions that other processes began, and finding out how they ended.

Ending a transaction needs its ID, producer ID and epoch, and can be repeated: the coordinator answers a commit with
NONE if, and only if, that very transaction is committed, now or before. In transaction version 2 each end raises the
epoch, and the coordinator recognizes the epoch before it; in the older version the epoch stays. An abort by timeout
raises the epoch in both: then the answer is an error, as it is when the ID expired or was taken over. The outcome of
the transaction is then in the partitions it wrote to, as its marker.
"""

import time
from collections.abc import Callable, Sequence
from enum import Enum

from tidelog.client.admin import ANY, Coordinator, Leader
from tidelog.client.results import code_of
from tidelog.errors import RETRIABLE, ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.spark.writing.ledger import Transaction
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.topics.metadata import MetadataRequest
from tidelog.wire.messages.transactions.transaction_admin import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    TransactionState,
)
from tidelog.wire.messages.transactions.transaction_requests import EndTxnRequest
from tidelog.wire.records import BatchHeader, batches, read_marker, records

TRANSACTION = 1
VERSION_2 = 2
OLDER_END = 4
"""The newest EndTxn that does not raise the epoch."""
_WITH_NAMES = 12
"""The newest Fetch with topic names."""
LISTING_MS = 5_000
"""A broker that does not list its transactions in this time is probably down."""
RETRY_S = 0.02
PATIENCE_S = 60.0
_FETCH_BYTES = 4 * 1024 * 1024
ONGOING = "Ongoing"
_ENDED_ERRORS = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)
"""There is no such transaction to end in this way."""


class Fate(Enum):
    """UNKNOWN: the records that would show it are deleted."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


def commit(admin: Admin, transactions: Sequence[Transaction]) -> list[Fate]:
    """Commit them all, and return the outcome of each; ApiError if the cluster does not answer."""
    codes = _end(admin, transactions, commit=True)
    return [
        Fate.COMMITTED if code is ErrorCode.NONE else fate(admin, one)
        for one, code in zip(transactions, codes, strict=True)
    ]


def abort(admin: Admin, transactions: Sequence[Transaction]) -> None:
    """Abort those that are still open; the outcome of the others does not matter."""
    _end(admin, transactions, commit=False)


def _end(admin: Admin, transactions: Sequence[Transaction], *, commit: bool) -> list[ErrorCode]:
    found: dict[int, ErrorCode] = {}
    until = time.monotonic() + PATIENCE_S
    left = list(range(len(transactions)))
    while left:
        for version in (0, VERSION_2):
            chosen = [place for place in left if (transactions[place].version >= VERSION_2) is (version >= VERSION_2)]
            requests = [_request(transactions[place], commit=commit) for place in chosen]
            newest = 32767 if version >= VERSION_2 else OLDER_END
            answers = admin.ask_all(requests, newest=newest)
            found.update(zip(chosen, (code_of(answer.error_code) for answer in answers), strict=True))
        left = [place for place in left if found[place] in RETRIABLE]
        if left and time.monotonic() > until:
            code = found[left[0]]
            raise ApiError(code, f"{transactions[left[0]].id} could not be ended in {PATIENCE_S:g} s")
        if left:
            time.sleep(RETRY_S)
    for place, code in found.items():
        if code and code not in _ENDED_ERRORS:
            raise ApiError(code, f"{transactions[place].id} could not be ended")
    return [found[place] for place in range(len(transactions))]


def _request(transaction: Transaction, *, commit: bool) -> tuple[EndTxnRequest, Coordinator]:
    request = EndTxnRequest(
        transactional_id=transaction.id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        committed=commit,
    )
    return request, Coordinator(transaction.id, TRANSACTION)


def not_open(admin: Admin, transactions: Sequence[Transaction]) -> list[Transaction]:
    """Those that are not open any more and cannot be committed."""
    described = _described(admin, [one.id for one in transactions])
    return [
        one
        for one, found in zip(transactions, described, strict=True)
        if (found.transaction_state, found.producer_id, found.producer_epoch) != (ONGOING, one.producer_id, one.epoch)
    ]


def left_open(admin: Admin, is_own: Callable[[str], bool]) -> list[Transaction]:
    """All open transactions whose IDs are the caller's own. ApiError if a broker does not answer."""
    brokers = [broker.node_id for broker in admin.ask(MetadataRequest(topics=[]), ANY).brokers]
    request = ListTransactionsRequest(state_filters=[ONGOING])
    answers = admin.ask_all([(request, broker) for broker in brokers], timeout_ms=LISTING_MS)
    version = max(admin.feature(broker, "transaction.version") for broker in brokers)
    found = {state.transactional_id for answer in answers for state in answer.transaction_states}
    ids = sorted(name for name in found if is_own(name))
    return [
        Transaction(name, state.producer_id, state.producer_epoch, version, {})
        for name, state in zip(ids, _described(admin, ids), strict=True)
        if state.transaction_state == ONGOING
    ]


def _described(admin: Admin, ids: Sequence[str]) -> list[TransactionState]:
    requests = [(DescribeTransactionsRequest(transactional_ids=[name]), Coordinator(name, TRANSACTION)) for name in ids]
    return [answer.transaction_states[0] for answer in admin.ask_all(requests)]


def fate(admin: Admin, transaction: Transaction) -> Fate:
    """The outcome by the first marker behind the transaction's records, in the first partition that still has it."""
    for place, first in sorted(transaction.first.items()):
        marker = _marker(admin, place, first, transaction)
        if marker is not None:
            return Fate.COMMITTED if marker else Fate.ABORTED
    return Fate.UNKNOWN


def _marker(admin: Admin, place: TopicPartition, first: int, transaction: Transaction) -> bool | None:
    """Whether the marker is a commit; None if the records from `first` on, or some of them, are deleted."""
    offset = first
    until = time.monotonic() + PATIENCE_S
    while first >= 0 and time.monotonic() < until:
        wanted = FetchPartition(partition=place.partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
        topics = [FetchTopic(topic=place.topic, partitions=[wanted])]
        request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=topics)
        found = admin.ask(request, Leader(*place), newest=_WITH_NAMES).responses[0].partitions[0]
        code = code_of(found.error_code)
        if code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            return None
        if code and code not in RETRIABLE:
            raise ApiError(code, f"{place} cannot be read for the end of {transaction.id}")
        data = bytes(found.records or b"")
        for batch in batches(data):
            if batch.is_control and _is_of(batch, transaction):
                marker = read_marker(next(iter(records(data, batch))))
                if marker is not None:
                    return marker.committed
            offset = batch.next_offset
    return None


def _is_of(batch: BatchHeader, transaction: Transaction) -> bool:
    return batch.producer_id == transaction.producer_id and batch.producer_epoch >= transaction.epoch
