"""ListTransactions (66): the transactions that this broker coordinates (KIP-664, 994, 1152)."""

from functools import partial

from tidelog.api.context import Context, Pending
from tidelog.api.transactions.to_transaction_coordinator import submit
from tidelog.coordinator.patterns import PatternProblem, whole_matcher
from tidelog.coordinator.transaction import ListAll
from tidelog.coordinator.transaction.describe import NAMES
from tidelog.errors import ErrorCode
from tidelog.wire.messages.transactions.list_transactions import ListTransactionsRequest, ListTransactionsResponse


def handle(request: ListTransactionsRequest, context: Context) -> ListTransactionsResponse | Pending:
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in NAMES]
    try:
        matches = whole_matcher(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except PatternProblem:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    asked = ListAll(
        states=frozenset(NAMES[name] for name in request.state_filters if name in NAMES),
        has_unknown_state=bool(unknown),
        producer_ids=frozenset(request.producer_id_filters),
        duration_ms=request.duration_filter,
        matches=matches,
    )
    return submit(asked, context, partial(_finish, unknown))


def _finish(unknown: list[str], response: ListTransactionsResponse) -> ListTransactionsResponse:
    response.unknown_state_filters = unknown
    return response
