"""DescribeTransactions (65)."""

from typing import Any

from tidelog.api.context import Context, Pending
from tidelog.api.transactions.to_transaction_coordinator import submit
from tidelog.coordinator.transaction import Describe
from tidelog.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest


def handle(request: DescribeTransactionsRequest, context: Context) -> Pending:
    return submit(Describe(request.transactional_ids), context, _as_it_is)


def _as_it_is(response: Any) -> Any:
    return response
