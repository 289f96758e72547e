"""DescribeTransactions (65)."""

from typing import Any

from tidelog.api.context import Context, Handed
from tidelog.api.transactions.handing import hand_over
from tidelog.coordinator.transaction import Describe
from tidelog.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest


def handle(request: DescribeTransactionsRequest, context: Context) -> Handed:
    return hand_over(Describe(request.transactional_ids), context, _as_it_is)


def _as_it_is(response: Any) -> Any:
    return response
