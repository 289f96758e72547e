"""Requests that the transaction coordinator answers as they are: ending, describing and listing transactions.

Also how any request gets to the coordinator (`submit`), and what older clients get instead of newer codes (`fencing`).
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from tidelog.api.context import PENDING, Context, Pending
from tidelog.api.matching import match_all
from tidelog.coordinator.patterns import PatternProblem, whole_matcher
from tidelog.coordinator.transaction import (
    AddPartitions,
    AddPartitionsResult,
    DescribeTransactions,
    EndTransaction,
    EndTransactionResult,
    ListTransactions,
)
from tidelog.coordinator.transaction.describe import STATES_BY_NAME
from tidelog.errors import ErrorCode
from tidelog.model import GROUP_TOPIC, TRANSACTION_TOPIC, TopicPartition
from tidelog.wire.messages.transactions.transaction_admin import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tidelog.wire.messages.transactions.transaction_requests import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
)

FENCED_SINCE = 2
"""AddOffsetsToTxn and EndTxn know PRODUCER_FENCED since this version."""
TRANSACTION_VERSION_2_SINCE = 5
"""Callers of this version of EndTxn use transaction version 2."""


def submit(request: Any, context: Context, finish: Callable[[Any], Any]) -> Pending:
    """Give the request to the coordinator, which will reply; `finish` makes a response of its answer."""
    topic = context.broker.image.topics.get(TRANSACTION_TOPIC)
    partitions = 0 if topic is None else len(topic.partitions)
    context.effects.extend(context.broker.transactions.handle(context.token, request, partitions, context.now, finish))
    return PENDING


def fencing(code: ErrorCode, version: int, since: int) -> ErrorCode:
    """Clients learned of PRODUCER_FENCED in version `since` of the API."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED and version < since else code


def end_txn(request: EndTxnRequest, context: Context) -> EndTxnResponse | Pending:
    """EndTxn (26): commit or abort. From version 5 on the answer has the epoch for the next transaction (KIP-890)."""
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    end = EndTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
        commit=request.committed,
        version=2 if context.version >= TRANSACTION_VERSION_2_SINCE else 0,
    )

    def finish(ended: EndTransactionResult) -> EndTxnResponse:
        code = fencing(ended.code, context.version, FENCED_SINCE)
        return EndTxnResponse(error_code=code, producer_id=ended.producer_id, producer_epoch=ended.epoch)

    return submit(end, context, finish)


def add_offsets_to_txn(request: AddOffsetsToTxnRequest, context: Context) -> AddOffsetsToTxnResponse | Pending:
    """AddOffsetsToTxn (25): the partition of the group's offsets becomes part of the transaction."""
    if not request.transactional_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    add = AddPartitions(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
        partitions=frozenset({offsets_partition(request.group_id, context)}),
    )

    def finish(added: AddPartitionsResult) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=fencing(added.code, context.version, FENCED_SINCE))

    return submit(add, context, finish)


def offsets_partition(group_id: str, context: Context) -> TopicPartition:
    """The partition of `__consumer_offsets` that holds the group's offsets."""
    topic = context.broker.image.topics.get(GROUP_TOPIC)
    size = 0 if topic is None else len(topic.partitions)
    return TopicPartition(GROUP_TOPIC, context.broker.groups.partition_for(group_id, size))


def describe_transactions(request: DescribeTransactionsRequest, context: Context) -> Pending:
    """DescribeTransactions (65)."""
    return submit(DescribeTransactions(request.transactional_ids), context, _unchanged)


def _unchanged(response: Any) -> Any:
    return response


def list_transactions(
    request: ListTransactionsRequest, context: Context
) -> Generator[None, None, ListTransactionsResponse | Pending]:
    """ListTransactions (66): the transactions that this broker coordinates (KIP-664, 994, 1152)."""
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in STATES_BY_NAME]
    try:
        matches = whole_matcher(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except PatternProblem:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    if matches is not None:
        yield from match_all(matches, context.broker.transactions.transactional_ids())
    list_all = ListTransactions(
        states=frozenset(STATES_BY_NAME[name] for name in request.state_filters if name in STATES_BY_NAME),
        has_unknown_state=bool(unknown),
        producer_ids=frozenset(request.producer_id_filters),
        duration_ms=request.duration_filter,
        matches=matches,
    )
    return submit(list_all, context, partial(_listed, unknown))


def _listed(unknown: list[str], response: ListTransactionsResponse) -> ListTransactionsResponse:
    response.unknown_state_filters = unknown
    return response
